"""Columns through a process that may die."""

from __future__ import annotations

import os
import signal
import time

import pyarrow as pa
import pytest

from onnx_tapir import TapirProcess, TapirProcessError, TapirVersionError, check_options
from onnx_tapir.columns import as_lists

from .conftest import is_alive, paths, wait_until_gone
from .fake_tapir import features


def test_columns_pass_through_beside_the_features(options) -> None:
    table = paths(12)
    result = TapirProcess(options()).embed_table(table)
    assert result.column_names == ["path", "label", "status", "error_code", "error_message", "embedding"]
    assert result.select(["path", "label"]).equals(table)
    assert result.column("embedding").to_pylist() == [features(p.encode()) for p in table.column("path").to_pylist()]
    assert result.schema.field("embedding").type == pa.list_(pa.float32(), 4)


def test_images_that_fail_are_rows(options) -> None:
    result = TapirProcess(options()).embed_table(paths(9, broken=(0, 4)))
    status = result.column("status").to_pylist()
    assert [i for i, value in enumerate(status) if value == "error"] == [0, 4]
    assert result.column("error_code").to_pylist()[4] == "IMAGE_UNREADABLE"
    assert [i for i, value in enumerate(result.column("embedding").to_pylist()) if value is None] == [0, 4]


def test_maps_are_tensors_or_flat_lists(options) -> None:
    table = TapirProcess(options("map")).embed_table(paths(7, broken=(0, 6)))
    column = table.column("embedding")
    assert column.type == pa.fixed_shape_tensor(pa.float32(), [2, 2])
    assert [i for i, is_null in enumerate(column.is_null().to_pylist()) if is_null] == [0, 6]
    lists = as_lists(table).column("embedding")
    assert lists.type == pa.list_(pa.float32())
    assert lists.to_pylist()[3] == features(b"photo-3.jpg") and lists.to_pylist()[6] is None
    assert as_lists(table, has_tensors=True).schema == table.schema


def test_halves_are_floats_where_an_engine_has_none() -> None:
    table = pa.table({"v": pa.array([[1.5, 2], None], pa.list_(pa.float16(), 2))})
    assert as_lists(table).schema.field("v").type == pa.list_(pa.float16())
    assert as_lists(table, has_half=False).column("v").to_pylist() == [[1.5, 2], None]
    assert as_lists(table, has_half=False).schema.field("v").type == pa.list_(pa.float32())


def test_no_rows_need_no_process(options, pids) -> None:
    assert TapirProcess(options()).embed_table(paths(0)).num_rows == 0
    assert pids() == []


def test_one_process_serves_all_batches(options, pids) -> None:
    process = TapirProcess(options())
    for start in range(0, 100, 10):
        process.embed_table(paths(10, start))
    assert len(pids()) == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_any_text_is_a_path(options, kind) -> None:
    names = pa.array(["a.jpg", "b.jpg", "a.jpg"]).cast(kind)
    result = TapirProcess(options()).embed_table(pa.table({"path": names}))
    assert result.column("embedding").to_pylist() == [features(name) for name in (b"a.jpg", b"b.jpg", b"a.jpg")]
    assert result.schema.field("path").type == kind


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)])
def test_bytes_are_images(options, kind) -> None:
    table = pa.table({"bytes": pa.array([b"one", b"two"], kind), "name": ["1", "2"]})
    result = TapirProcess(options(column="bytes", keep_column=False)).embed_table(table)
    assert result.column_names == ["name", "status", "error_code", "error_message", "embedding"]
    assert result.column("embedding").to_pylist() == [features(b"one"), features(b"two")]


@pytest.mark.parametrize("before", [None, pa.array(["a"]), pa.array([b"a"])])
@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.binary(), pa.int64(), pa.float64(), pa.dictionary(pa.int8(), pa.null())])
def test_nulls_are_rows_whatever_type_is_inferred(options, pids, before, kind) -> None:
    process = TapirProcess(options())
    if before is not None:
        process.embed(before)
    cells = pa.nulls(3, kind) if kind != pa.float64() else pa.array([float("nan"), None, float("nan")])
    answer = process.embed(cells)
    assert answer.column("error_code").to_pylist() == ["IMAGE_EMPTY"] * 3
    assert answer.column("embedding").null_count == 3
    # Nulls of no kind need no other process.
    kinds = 2 if before is not None and kind in (pa.string(), pa.binary()) and before.type != kind else 1
    assert len(pids()) == kinds


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.binary()])
def test_no_cells_are_no_rows(options, kind) -> None:
    process = TapirProcess(options())
    empty = process.embed(pa.array([], kind))
    assert empty.num_rows == 0 and empty.column_names == ["status", "error_code", "error_message", "embedding"]
    assert process.embed(pa.array([], kind)).schema == empty.schema


def test_one_image_that_is_too_large_is_a_row(options, monkeypatch) -> None:
    monkeypatch.setattr("onnx_tapir.columns.IMAGE_BYTES_MAX", 1000)
    table = pa.table({"path": [b"x" * 1000, b"x" * 1001, None, b"y"]})
    result = TapirProcess(options()).embed_table(table)
    assert result.column("error_code").to_pylist() == [None, "IMAGE_TOO_LARGE", "IMAGE_EMPTY", None]
    assert "more than 1000 bytes" in result.column("error_message").to_pylist()[1]
    assert result.column("embedding").to_pylist() == [features(b"x" * 1000), None, None, features(b"y")]
    assert result.select(["path"]).equals(table)


def test_another_kind_of_column_gets_another_process(options, pids) -> None:
    process = TapirProcess(options())
    process.embed_table(pa.table({"path": ["a"]}))
    assert process.embed_table(pa.table({"path": [b"a"]})).column("embedding").to_pylist() == [features(b"a")]
    first, second = pids()
    assert not is_alive(first) and is_alive(second)


def test_a_process_that_dies_under_a_batch_is_replaced(options, pids) -> None:
    process = TapirProcess(options("crash:7", once=True))
    table = paths(20)
    assert process.embed_table(table).column("embedding").to_pylist() == [features(p.encode()) for p in table.column("path").to_pylist()]
    assert len(pids()) == 2


def test_a_process_that_dies_between_batches_costs_no_retry(options, pids) -> None:
    process = TapirProcess(options(retries=0))
    process.embed_table(paths(3))
    os.kill(pids()[0], signal.SIGKILL)
    while process._pipe.is_usable:
        time.sleep(0.01)
    assert process.embed_table(paths(3)).num_rows == 3
    assert len(pids()) == 2


def test_retries_end(options, pids) -> None:
    process = TapirProcess(options("crash:7"))
    with pytest.raises(TapirProcessError, match="signal 9.*(?s:.*)std::bad_alloc"):
        process.embed_table(paths(20))
    assert len(pids()) == 3
    # The next batch, or Ray's own retry, has a fresh one.
    assert process.embed_table(paths(5)).num_rows == 5
    assert len(pids()) == 4


def test_wrong_flags_are_not_tried_again(options, pids) -> None:
    with pytest.raises(TapirProcessError, match="unknown option"):
        TapirProcess(options("usage")).embed_table(paths(3))
    assert len(pids()) == 1


def test_the_process_ends_with_the_object(options, pids) -> None:
    process = TapirProcess(options())
    process.embed_table(paths(3))
    del process
    assert wait_until_gone(pids()[0])


def test_tables_come_in_order_and_two_are_under_way(options, pids) -> None:
    drawn = []

    def tables():
        for start in range(0, 50, 10):
            drawn.append(start)
            yield paths(10, start)

    process = TapirProcess(options())
    answers = process.map(tables())
    assert next(answers).column("label").to_pylist() == [*range(0, 100, 10)] and drawn == [0, 10]
    labels = [label for answer in answers for label in answer.column("label").to_pylist()]
    assert labels == [*range(100, 500, 10)]
    assert len(pids()) == 1


def test_a_restart_is_a_fresh_process(options, pids) -> None:
    with TapirProcess(options()) as process:
        process.embed(pa.array(["a"]))
        process.restart()
        assert process.embed(pa.array(["a"])).column("embedding").to_pylist() == [features(b"a")]
        first, second = pids()
        assert not is_alive(first) and is_alive(second)
    assert not is_alive(second)


def test_calls_of_a_worker_share_the_process_of_their_options(options, pids) -> None:
    one, two, three = options(), options(retries=1), options(retries=0)
    assert TapirProcess.shared(one) is TapirProcess.shared(options())
    for given in (one, two, one):
        TapirProcess.shared(given).embed(pa.array(["a"]))
    first, second = pids()
    # A third one ends that of two, which was used longest ago.
    TapirProcess.shared(three).embed(pa.array(["a"]))
    assert is_alive(first) and not is_alive(second)
    TapirProcess.close_shared()
    assert not any(map(is_alive, pids()))


def test_the_driver_learns_the_columns(options, pids) -> None:
    added = check_options(options(num_gpus=1), ["path"])
    assert added.names == ["status", "error_code", "error_message", "embedding"]
    assert added.field("embedding").type == pa.list_(pa.float32(), 4)
    assert not is_alive(pids()[0])


def test_the_driver_hears_what_the_command_warns_of(options) -> None:
    with pytest.warns(UserWarning) as heard:
        check_options(options(fake="warning"), ["path"])
    assert [str(one.message) for one in heard if one.category is UserWarning] == ["pixels are assumed"]


@pytest.mark.parametrize(
    ("given", "columns", "error", "says", "code"),
    [
        ({"tapir": ["no-such-tapir"]}, None, TapirProcessError, "cannot start no-such-tapir: No such file", None),
        ({"fake": "usage"}, None, TapirProcessError, "unknown option '--nonsense'", None),
        ({"fake": "model"}, None, TapirProcessError, 'there is no file "m.onnx"', "MODEL_UNREADABLE"),
        ({"fake": "hang:0", "timeout_s": 0.5}, None, TapirProcessError, "took longer than 0.5 s", None),
        ({"version": "0.2.0"}, None, TapirVersionError, "0.1.0, the command tapir here is 0.2.0: install", None),
        ({"version": ""}, None, TapirVersionError, "here is an older one", None),
        ({}, ["file"], ValueError, "column='path': the dataset has file", None),
        ({}, ["path", "embedding"], ValueError, "has a column embedding already", None),
    ],
)
def test_the_driver_says_what_is_wrong(options, given, columns, error, says, code) -> None:
    with pytest.raises(error, match=says) as raised:
        check_options(options(**given), columns)
    assert getattr(raised.value, "code", None) == code


def test_a_worker_of_another_version_is_an_error_at_once(options, pids) -> None:
    with pytest.raises(TapirVersionError, match="0.1.0, the command tapir here is 1.0.0"):
        TapirProcess(options(version="1.0.0")).embed(pa.array(["a"]))
    assert len(pids()) == 1


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (pa.table({"file": ["a"]}), ValueError, "column='path': the dataset has file"),
        (pa.table({"path": [1, 2]}), TypeError, "must be text"),
        (pa.table({"path": ["a"], "status": ["new"]}), ValueError, "has a column status already"),
        (pa.table({"path": ["a"], "embedding": [1.0]}), ValueError, "has a column embedding already"),
    ],
)
def test_what_cannot_work_is_said(options, table, error, says) -> None:
    with pytest.raises(error, match=says):
        TapirProcess(options()).embed_table(table)
