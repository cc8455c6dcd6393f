"""The process that the tests talk to."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from collections.abc import Callable

import pyarrow as pa
import pytest

from onnx_tapir import EmbedOptions

FAKE = [sys.executable, str(Path(__file__).parent / "fake_tapir.py")]


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., EmbedOptions]:
    """Options whose process misbehaves as `fake` says, each time or `once`."""

    def make(fake: str = "", once: bool = False, version: str = "0.1.0", **given: object) -> EmbedOptions:
        env = {"FAKE": fake, "FAKE_PIDS": str(tmp_path / "pids"), "FAKE_ONCE": str(tmp_path / "once") if once else ""}
        env["FAKE_VERSION"] = version
        defaults: dict = dict(model="m.onnx", return_nodes="avgpool=embedding", tapir=FAKE, timeout_s=60.0, env=env)
        return EmbedOptions(**{**defaults, **given})

    return make


@pytest.fixture
def pids(tmp_path: Path) -> Callable[[], list[int]]:
    """The processes that were started, in their order."""

    def read() -> list[int]:
        file = tmp_path / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    return read


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    """Waits for a process to end; False if it is there for long."""
    for _ in range(400):
        if not is_alive(pid):
            return True
        time.sleep(0.05)
    return False


def paths(count: int, start: int = 0, broken: tuple[int, ...] = ()) -> pa.Table:
    """A table of made-up paths and a column that passes through."""
    numbers = range(start, start + count)
    names = [f"photo-{i}{'-broken' if i in broken else ''}.jpg" for i in numbers]
    return pa.table({"path": names, "label": [i * 10 for i in numbers]})
