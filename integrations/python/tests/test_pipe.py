"""The process and its pipe."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from onnx_tapir import TapirProcessError
from onnx_tapir.pipe import Pipe, _messages

from .conftest import FAKE, is_alive, wait_until_gone
from .fake_tapir import features


def start(fake: str = "", column: str = "path", command: list[str] = FAKE) -> Pipe:
    return Pipe([*command, "--column", column], column, {"FAKE": fake})


def cells(*names: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(names)])


def test_rows_come_back_as_they_were_sent() -> None:
    process = start()
    for count in (1, 7, 5, 123):
        names = [f"{count}-{i}" for i in range(count)]
        answer = process.embed(cells(*names))
        assert answer.column("embedding").to_pylist() == [features(name.encode()) for name in names]
        assert answer.column_names == ["status", "error_code", "error_message", "embedding"]
        assert set(answer.column("status").to_pylist()) == {"ok"}
    process.close()


def test_requests_of_several_threads_do_not_mix() -> None:
    process = start()

    def ask(thread: int) -> bool:
        names = [f"{thread}-{i}" for i in range(37 * (thread + 1))]
        return all(
            process.embed(cells(*names)).column("embedding").to_pylist() == [features(name.encode()) for name in names]
            for _ in range(5)
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(8)))
    process.close()


def test_more_than_pipes_hold_goes_through_both_ways() -> None:
    process = start(column="image")
    images = [bytes([i % 256]) * 200_000 for i in range(200)]
    answer = process.embed(pa.chunked_array([pa.array(images)]))
    assert answer.column("embedding").to_pylist() == [features(image) for image in images]
    process.close()


def test_messages_are_of_a_size_that_tapir_takes() -> None:
    sizes = [1] * 33 + [40 * 2**20, 40 * 2**20, 100 * 2**20, 1]
    block = bytes(max(sizes))
    table = pa.table({"image": pa.array([block[:size] for size in sizes], pa.large_binary()), "row": range(len(sizes))})
    messages = [*_messages(table, "image")]
    assert [message.num_rows for message in messages] == [32, 2, 1, 1, 1]
    assert pa.Table.from_batches(messages).column("row").to_pylist() == [*range(len(sizes))]


def test_much_on_standard_error_does_not_stop_it() -> None:
    process = start("noise")
    assert process.embed(cells("a")).num_rows == 1
    process.close()


def test_close_ends_it() -> None:
    process = start()
    process.embed(cells("a"))
    assert process.pid and is_alive(process.pid)
    process.close()
    assert not is_alive(process.pid)
    assert not process.is_usable
    process.close()


def test_close_before_any_row_ends_it() -> None:
    process = start()
    process.close()
    assert process.pid and not is_alive(process.pid)


@pytest.mark.parametrize(
    ("fake", "says", "stderr"),
    [
        ("crash:0", "ended (signal 9)", "std::bad_alloc"),
        ("crash:3", "ended (signal 9)", "std::bad_alloc"),
        ("usage", "ended (exit code 2)", "unknown option"),
        ("deaf", "ended (exit code 3)", "cannot read any more"),
        ("stop:3", "ended (exit code 0)", ""),
        ("garbage", "no Arrow stream, it begins with b'tapi'", ""),
        ("garbage:1", "a message of 1768972660 bytes", ""),
        ("swap:7", "rows in another order than they were sent in, after row 5", ""),
        ("more", "sent what is no answer", ""),
    ],
)
def test_what_goes_wrong_is_an_error_that_says_what(fake: str, says: str, stderr: str) -> None:
    process = start(fake)
    with pytest.raises(TapirProcessError) as raised:
        for _ in range(3):
            process.embed(cells(*map(str, range(12))), 60)
    assert says in str(raised.value)
    assert stderr in raised.value.stderr and stderr in str(raised.value)
    assert raised.value.is_final == (fake == "usage")
    assert not process.is_usable
    assert process.pid and not is_alive(process.pid)
    with pytest.raises(TapirProcessError):
        process.embed(cells("a"))


def test_one_that_takes_too_long_is_ended() -> None:
    process = start("hang:3")
    with pytest.raises(TapirProcessError, match="took longer than 0.5 s"):
        process.embed(cells(*map(str, range(12))), 0.5)
    assert process.pid and not is_alive(process.pid)


def test_all_that_wait_hear_of_the_end() -> None:
    process = start("crash:20")

    def ask(i: int) -> str:
        try:
            process.embed(cells(*[f"{i}-{j}" for j in range(15)]))
        except TapirProcessError as error:
            return str(error)
        return "ok"

    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(ask, range(4))]
    assert sum(answer != "ok" for answer in answers) >= 3
    assert all("std::bad_alloc" in answer for answer in answers if answer != "ok")


def test_a_command_that_is_not_there_is_said_so() -> None:
    process = start(command=["no-such-tapir"])
    with pytest.raises(TapirProcessError, match="cannot start no-such-tapir: No such file.*install it") as raised:
        process.embed(cells("a"))
    assert raised.value.is_final


def test_the_error_survives_pickle() -> None:
    error = pickle.loads(pickle.dumps(TapirProcessError("tapir ended", -9, "why")))
    assert (str(error), error.returncode, error.stderr) == ("tapir ended", -9, "why")


FORGETFUL = """
import sys
import pyarrow as pa
from onnx_tapir import EmbedOptions, TapirProcess
process = TapirProcess(EmbedOptions("m.onnx", "avgpool", tapir=sys.argv[1:], env={"FAKE": ""}))
rows = process.embed(pa.array(["a", "b"])).num_rows
print(process._pipe.pid, rows)
"""


def test_python_ends_well_where_nobody_closes_it() -> None:
    command = [sys.executable, "-c", FORGETFUL, *FAKE]
    ended = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    pid, rows = ended.stdout.split()
    assert rows == "2" and not is_alive(int(pid))


OWNER = """
import sys, time
from onnx_tapir.pipe import Pipe
process = Pipe(sys.argv[2:], "path", {"FAKE": "mute", "FAKE_PIDS": sys.argv[1]})
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel does this on Linux only")
def test_it_does_not_outlive_its_owner(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(pids), *FAKE], cwd=Path(__file__).parent.parent)
    while not pids.exists() or not pids.read_text().endswith("\n"):
        time.sleep(0.05)
    pid = int(pids.read_text())
    assert is_alive(pid)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert wait_until_gone(pid)
