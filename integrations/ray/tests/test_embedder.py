"""What an actor does with batches."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pyarrow as pa
import pytest

from onnx_tapir_ray import TapirProcessError
from onnx_tapir_ray.embedder import Embedder

from .conftest import is_alive, paths, wait_until_gone
from .fake_tapir import features


def test_columns_pass_through_beside_the_features(options) -> None:
    table = paths(12)
    result = Embedder(options())(table)
    assert result.column_names == ["path", "label", "status", "error_code", "error_message", "embedding"]
    assert result.select(["path", "label"]).equals(table)
    assert result.column("embedding").to_pylist() == [features(p.encode()) for p in table.column("path").to_pylist()]
    assert result.schema.field("embedding").type == pa.list_(pa.float32(), 4)


def test_images_that_fail_are_rows(options) -> None:
    result = Embedder(options())(paths(9, broken=(0, 4)))
    status = result.column("status").to_pylist()
    assert [i for i, value in enumerate(status) if value == "error"] == [0, 4]
    assert result.column("error_code").to_pylist()[4] == "IMAGE_UNREADABLE"
    assert [i for i, value in enumerate(result.column("embedding").to_pylist()) if value is None] == [0, 4]


def test_maps_are_tensors_and_of_nan_where_images_fail(options) -> None:
    column = Embedder(options("map"))(paths(7, broken=(0, 6))).column("embedding")
    tensors = column.combine_chunks()
    assert tensors.type == pa.fixed_shape_tensor(pa.float32(), [2, 2])
    values = tensors.to_numpy_ndarray()
    assert values.shape == (7, 2, 2)
    assert np.isnan(values[[0, 6]]).all()
    assert values[3].reshape(-1).tolist() == features(b"photo-3.jpg")


def test_no_rows_need_no_process(options, pids) -> None:
    assert Embedder(options())(paths(0)).num_rows == 0
    assert pids() == []


def test_one_process_serves_all_batches(options, pids) -> None:
    embedder = Embedder(options())
    for start in range(0, 100, 10):
        embedder(paths(10, start))
    assert len(pids()) == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_any_text_is_a_path(options, kind) -> None:
    names = pa.array(["a.jpg", "b.jpg", "a.jpg"]).cast(kind)
    result = Embedder(options())(pa.table({"path": names}))
    assert result.column("embedding").to_pylist() == [features(name) for name in (b"a.jpg", b"b.jpg", b"a.jpg")]
    assert result.schema.field("path").type == kind


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_bytes_are_images(options, kind) -> None:
    table = pa.table({"bytes": pa.array([b"one", b"two"], kind), "name": ["1", "2"]})
    result = Embedder(options(column="bytes", keep_column=False))(table)
    assert result.column_names == ["name", "status", "error_code", "error_message", "embedding"]
    assert result.column("embedding").to_pylist() == [features(b"one"), features(b"two")]


def test_one_image_that_is_too_large_is_a_row(options, monkeypatch) -> None:
    monkeypatch.setattr("onnx_tapir_ray.embedder.IMAGE_BYTES_MAX", 1000)
    table = pa.table({"path": [b"x" * 1000, b"x" * 1001, None, b"y"]})
    result = Embedder(options())(table)
    assert result.column("error_code").to_pylist() == [None, "IMAGE_TOO_LARGE", "IMAGE_EMPTY", None]
    assert "more than 1000 bytes" in result.column("error_message").to_pylist()[1]
    assert result.column("embedding").to_pylist() == [features(b"x" * 1000), None, None, features(b"y")]
    assert result.select(["path"]).equals(table)


def test_another_kind_of_column_gets_another_process(options, pids) -> None:
    embedder = Embedder(options())
    embedder(pa.table({"path": ["a"]}))
    assert embedder(pa.table({"path": [b"a"]})).column("embedding").to_pylist() == [features(b"a")]
    first, second = pids()
    assert not is_alive(first) and is_alive(second)


def test_a_process_that_dies_under_a_batch_is_replaced(options, pids) -> None:
    embedder = Embedder(options("crash:7", once=True))
    table = paths(20)
    assert embedder(table).column("embedding").to_pylist() == [features(p.encode()) for p in table.column("path").to_pylist()]
    assert len(pids()) == 2


def test_a_process_that_dies_between_batches_costs_no_retry(options, pids) -> None:
    embedder = Embedder(options(retries=0))
    embedder(paths(3))
    os.kill(pids()[0], signal.SIGKILL)
    while embedder._process.is_usable:
        time.sleep(0.01)
    assert embedder(paths(3)).num_rows == 3
    assert len(pids()) == 2


def test_retries_end(options, pids) -> None:
    embedder = Embedder(options("crash:7"))
    with pytest.raises(TapirProcessError, match="signal 9.*(?s:.*)std::bad_alloc"):
        embedder(paths(20))
    assert len(pids()) == 3
    # The next batch, or Ray's own retry, has a fresh one.
    assert embedder(paths(5)).num_rows == 5
    assert len(pids()) == 4


def test_wrong_flags_are_not_tried_again(options, pids) -> None:
    with pytest.raises(TapirProcessError, match="unknown option"):
        Embedder(options("usage"))(paths(3))
    assert len(pids()) == 1


def test_the_process_ends_with_the_object(options, pids) -> None:
    embedder = Embedder(options())
    embedder(paths(3))
    del embedder
    assert wait_until_gone(pids()[0])


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
        Embedder(options())(table)
