"""The process that the tests talk to."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from collections.abc import Callable

import pyarrow as pa
import pytest

from onnx_tapir_ray.embedder import EmbedderOptions

FAKE = [sys.executable, str(Path(__file__).parent / "fake_tapir.py")]


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., EmbedderOptions]:
    """Options of an embedder whose process misbehaves as `fake` says, each time or `once`."""

    def make(fake: str = "", once: bool = False, **given: object) -> EmbedderOptions:
        env = {"FAKE": fake, "FAKE_PIDS": str(tmp_path / "pids"), "FAKE_ONCE": str(tmp_path / "once") if once else ""}
        defaults: dict = dict(command=tuple(FAKE), column="path", keep_column=True, retries=2, timeout_s=60.0, env=env)
        return EmbedderOptions(**{**defaults, **given})

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
