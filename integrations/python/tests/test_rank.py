"""A rank and its process, of which a script takes the place of Node. Ranks together: test/python/ranks.py."""

import json
import signal
import sys
import threading
import time

import pytest

pytest.importorskip("torch")

from onnx_tapir.rank import Rank  # noqa: E402
from onnx_tapir.version import __version__  # noqa: E402

PROCESS = """
import json, os, socket, struct, sys
pipe = socket.socket(fileno=int(os.environ["TAPIR_GROUP_FD"]))
header = struct.Struct("=IIQ")
def call(kind, data=b"", mark=0x7A706174):
    pipe.sendall(header.pack(mark, kind, len(data)) + data)
    _, answered, size = header.unpack(pipe.recv(header.size, socket.MSG_WAITALL))
    return answered, pipe.recv(size, socket.MSG_WAITALL) if size else b""
hello = json.dumps({"version": sys.argv[1], "timeoutMs": 1000}).encode()
"""


def run(script: str, version: str = __version__, left_out_code: int | None = None) -> int:
    return Rank([sys.executable, "-c", PROCESS + script, version]).run(left_out_code)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_answers_a_process_that_is_alone():
    numbers = json.dumps([1, 2])
    assert run(f"""
kind, answer = call(1, hello)
assert kind == 1 and json.loads(answer) == {{"rank": 0, "size": 1}}
data = struct.pack("=2d", *{numbers})
assert call(3, data) == (3, data)
assert call(4, b"bytes") == (4, b"bytes")
assert call(5) == (5, b"")
pipe.sendall(header.pack(0x7A706174, 6, 2) + b"{{}}")
assert pipe.recv(1) == b""
sys.exit(7)
""") == 7


def test_a_code_for_photos_left_out_needs_a_process_that_has_left():
    leave = """
call(1, hello)
pipe.sendall(header.pack(0x7A706174, 6, 2) + b"{}")
assert pipe.recv(1) == b""
"""
    assert run(f"{leave}sys.exit(1)", left_out_code=1) == 0
    assert run("call(1, hello); sys.exit(1)", left_out_code=1) == 1


def test_refuses_another_version():
    assert run("""
kind, answer = call(1, hello)
assert kind == 7 and "install the same version" in json.loads(answer)["reason"]
""", "9.9.9") == 0


def test_ends_with_the_process_and_hands_it_signals():
    assert run("os.kill(os.getpid(), 9)") == 137
    rank = Rank([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"])

    def stop() -> None:
        time.sleep(1)
        rank.forward(signal.SIGTERM, None)

    threading.Thread(target=stop).start()
    assert rank.run() == 143


def test_takes_no_garbage():
    assert run("pipe.sendall(b'x' * 100); assert pipe.recv(1) == b''") == 0
