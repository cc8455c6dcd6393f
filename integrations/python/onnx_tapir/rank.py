"""One rank of a training: starts its Node process, and carries that one's sums to the other ranks with torch.distributed (gloo).

The gradients that ranks add up lie in the memory of the host, whatever device computed them: hence gloo, on a GPU machine too.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .errors import TapirVersionError
from .version import check_version

#: A file descriptor of the Node process, for its half of the socket pair.
PIPE = "TAPIR_GROUP_FD"
#: Of a frame: the mark, the kind, and the bytes that follow, in the byte order of the machine.
_HEADER = struct.Struct("=IIQ")
_MARK = 0x7A706174
_HELLO, _SUM32, _SUM64, _BROADCAST, _BARRIER, _CLOSE, _LOST = range(1, 8)
_TYPES = {_SUM32: torch.float32, _SUM64: torch.float64}
_LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
#: Keys of the launcher's store: the verdict, the call to say where one is, and the answers.
_VERDICT, _TROUBLE, _AT = "lost", "trouble", "at/"
#: How often a rank looks into the store, and how long it waits for the others' answers.
_LOOK_S, _ANSWER_S = 0.5, 5.0
#: Bytes of a call whose memory is used again.
_LARGE = 2**20
#: What a rank answers that has closed its group.
_LEFT = -1


class _Lost(Exception):
    """A rank has not come."""

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(reason)
        self.rank = rank


class Rank:
    """A rank and its process. ``command`` finds the other end of the pipe through :data:`PIPE`."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._command = [*command]
        self._env = {**os.environ, **(env or {})}
        self._pipe, self._theirs = socket.socketpair()
        self._calls: queue.Queue[tuple[int, torch.Tensor] | None] = queue.Queue()
        self._sending = threading.Lock()
        self._store: dist.Store | None = None
        self._is_told = False
        self._rank, self._size = 0, 1
        #: The number of calls that the process has made.
        self._at = 0
        self._timeout_s = 600.0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, left_out_code: int | None = None) -> int:
        """Runs the process to its end, and returns its exit code: 128 + n where signal n ended it.

        ``left_out_code`` becomes 0 where the process has left its group: Node itself ends with 1 for a program that it cannot run.
        """
        launcher = [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid())] if sys.platform == "linux" else []
        fd = self._theirs.fileno()
        # A session of its own: Ctrl-C in a terminal comes once, from here.
        self._process = subprocess.Popen(
            [*launcher, *self._command], pass_fds=[fd], env={**self._env, PIPE: str(fd)}, start_new_session=True
        )
        self._theirs.close()
        for work in (self._read, self._work):
            threading.Thread(target=work, daemon=True).start()
        code = self._process.wait()
        code = 128 - code if code < 0 else code
        if self._store is not None and self._at != _LEFT:
            self._answer(_LEFT) if code == 0 else self._accuse(self._rank, f"its process has ended with exit code {code}")
        return 0 if code == left_out_code and self._at == _LEFT else code

    def forward(self, number: int, _frame: object) -> None:
        """Hands a signal on to the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _read(self) -> None:
        """The thread that reads. Collectives wait in another one, so that the end of this rank is heard at any time."""
        large = torch.empty(0, dtype=torch.uint8)
        with contextlib.suppress(OSError, ValueError):
            while True:
                kind, size = self._header()
                # The gradients of each step fill the same memory: a call is answered before the next one comes.
                data = large if size == len(large) else torch.empty(size, dtype=torch.uint8)
                large = data if size >= _LARGE else large
                self._fill(memoryview(data.numpy()))
                if kind == _CLOSE:
                    self._leave(json.loads(bytes(data.numpy())))
                    break
                self._calls.put((kind, data))
        self._calls.put(None)
        # What is no frame ends the group, and nothing after it is read.
        with contextlib.suppress(OSError):
            self._pipe.shutdown(socket.SHUT_RDWR)

    def _header(self) -> tuple[int, int]:
        raw = bytearray(_HEADER.size)
        self._fill(memoryview(raw))
        mark, kind, size = _HEADER.unpack(raw)
        if mark != _MARK or not _HELLO <= kind <= _CLOSE:
            raise ValueError("no frame")
        return kind, size

    def _fill(self, into: memoryview) -> None:
        while len(into) > 0:
            count = self._pipe.recv_into(into)
            if count == 0:
                raise OSError("the process has closed the pipe")
            into = into[count:]

    def _send(self, kind: int, data: memoryview | bytes = b"") -> None:
        with self._sending, contextlib.suppress(OSError):
            self._pipe.sendall(_HEADER.pack(_MARK, kind, len(data)))
            self._pipe.sendall(data)

    def _work(self) -> None:
        """The thread that makes the calls, one after the other."""
        for kind, data in iter(self._calls.get, None):
            self._at += self._at != _LEFT
            try:
                answer = self._join(data) if kind == _HELLO else self._call(kind, data)
            except _Lost as error:
                return self._tell({"rank": error.rank, "reason": str(error)})
            except TapirVersionError as error:
                return self._tell({"rank": self._rank, "reason": str(error)})
            except (RuntimeError, OSError) as error:  # torch's are RuntimeErrors
                return self._tell(self._find_lost(str(error).splitlines()[0]))
            self._send(kind, answer)

    def _join(self, data: torch.Tensor) -> bytes:
        hello = json.loads(bytes(data.numpy()))
        check_version(hello["version"])
        self._timeout_s = hello["timeoutMs"] / 1000
        limit = timedelta(milliseconds=hello["timeoutMs"])
        self._rank, self._size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        if self._size > 1:
            store, self._rank, self._size = next(dist.rendezvous("env://", timeout=limit))
            self._store = self._meet(store)
            threading.Thread(target=self._watch, daemon=True).start()
            dist.init_process_group("gloo", store=self._store, rank=self._rank, world_size=self._size, timeout=limit)
        return json.dumps({"rank": self._rank, "size": self._size}).encode()

    def _meet(self, store: dist.Store) -> dist.Store:
        """The part of the launcher's store that belongs to this start of all ranks: torchrun starts them again with the same one.

        Rank 0 names it. Each other rank leaves a word of its own there, which only a rank 0 that lives answers.
        """
        word, until = uuid.uuid4().hex, time.monotonic() + self._timeout_s
        missing = {*range(1, self._size)} if self._rank == 0 else {0}
        if self._rank == 0:
            store.set("tapir/start", word)
        while missing:
            if time.monotonic() > until:
                raise _Lost(min(missing), f"it has not come within {self._timeout_s:g} s")
            time.sleep(0.02)
            if not store.check(["tapir/start"]):
                continue
            start = store.get("tapir/start").decode()
            for rank in [*missing] if self._rank == 0 else [self._rank]:
                key = f"tapir/{start}/{rank}"
                if self._rank != 0:
                    store.set(key, word)
                    missing = set() if store.check([f"{key}/{word}"]) else missing
                elif store.check([key]):
                    store.set(f"{key}/{store.get(key).decode()}", "1")
                    missing.discard(rank)
        return dist.PrefixStore(f"tapir/{word if self._rank == 0 else start}", store)

    def _call(self, kind: int, data: torch.Tensor) -> memoryview | bytes:
        if self._size == 1 or kind == _BARRIER:
            if self._size > 1:
                dist.barrier()
            return memoryview(data.numpy())
        if kind == _BROADCAST:
            size = torch.tensor([len(data)])
            dist.broadcast(size, 0)
            data = data if self._rank == 0 else torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(data, 0)
        else:
            dist.all_reduce(data.view(_TYPES[kind]))
        return memoryview(data.numpy())

    def _leave(self, said: dict[str, Any]) -> None:
        """The process leaves the group."""
        if self._store is not None and not said.get("isRegular"):
            self._accuse(self._rank, str(said.get("reason")))
        self._answer(_LEFT)
        self._at = _LEFT

    def _watch(self) -> None:
        """The thread that answers where this rank is when another one asks, and hears which rank is lost."""
        assert self._store is not None
        answered = False
        while not self._is_told and self._at != _LEFT:
            time.sleep(_LOOK_S)
            try:
                if self._store.check([_VERDICT]):
                    return self._tell(json.loads(self._store.get(_VERDICT)))
                if not answered and self._store.check([_TROUBLE]):
                    self._answer(self._at)
                    answered = True
            except (RuntimeError, OSError):
                # Without torchrun the store is rank 0's.
                return self._tell({"rank": 0, "reason": "its store does not answer any more"})

    def _tell(self, lost: dict[str, Any]) -> None:
        """Tells the process which rank is lost: it ends its call, which others may never end."""
        if not self._is_told and self._at != _LEFT:
            self._is_told = True
            self._send(_LOST, json.dumps(lost).encode())

    def _answer(self, at: int) -> None:
        with contextlib.suppress(RuntimeError, OSError):
            if self._store is not None:
                self._store.set(f"{_AT}{self._rank}", str(at))

    def _accuse(self, rank: int | None, reason: str) -> None:
        """States which rank is lost. The first to do so is right."""
        with contextlib.suppress(RuntimeError, OSError):
            if self._store is not None:
                self._store.compare_set(_VERDICT, "", json.dumps({"rank": rank, "reason": reason}))

    def _find_lost(self, error: str) -> dict[str, Any]:
        """A call has failed: asks all ranks where they are. One that does not answer, or is behind, is lost."""
        found: dict[str, Any] = {"rank": None, "reason": error}
        with contextlib.suppress(RuntimeError, OSError, AttributeError):  # the last: there is no store yet
            self._store.set(_TROUBLE, "1")
            self._answer(self._at)
            others = [rank for rank in range(self._size) if rank != self._rank]
            at: dict[int, int] = {}
            until = time.monotonic() + _ANSWER_S
            while time.monotonic() < until and len(at) < len(others) and not self._store.check([_VERDICT]):
                time.sleep(0.1)
                at = {rank: int(self._store.get(f"{_AT}{rank}")) for rank in others if self._store.check([f"{_AT}{rank}"])}
            silent = [rank for rank in others if rank not in at]
            behind = min(others, key=lambda rank: at.get(rank, 0))
            if silent:
                self._accuse(silent[0], "its process does not answer")
            elif at[behind] == _LEFT:
                self._accuse(behind, "it has left the group")
            elif at[behind] < self._at:
                self._accuse(behind, f"it has not come to a call of the others within {self._timeout_s:g} s")
            else:
                self._accuse(None, error)
            found = json.loads(self._store.get(_VERDICT))
        return found


def main(command: Sequence[str], left_out_code: int | None = None) -> None:
    """Runs a rank as the program, and ends with its exit code; ``left_out_code`` is none that a launcher should start again for."""
    rank = Rank(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, rank.forward)
    code = rank.run(left_out_code)
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread may be inside torch, and wait for ranks that do not come.
    os._exit(code)
