"""One long-lived ``tapir embed - --format arrow --out -``: Arrow batches in, Arrow batches out."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from typing import IO
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from .columns import STATUS_COLUMNS
from .errors import TapirError, TapirProcessError, TapirVersionError
from .version import check_version

#: Goes along with every image and must come back in the same order: which image a row belongs to is checked, not assumed.
ROW_COLUMN = "tapir_row"
#: Columns of tapir's output that are no features.
_NOT_FEATURES = frozenset({ROW_COLUMN, "path", *STATUS_COLUMNS})

_LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
_STDERR_TAIL_BYTES = 8192
#: Images per message: tapir begins with the first while the others are still being sent.
_IMAGES_PER_MESSAGE = 32
#: Bytes of images per message, unless one image alone has more. tapir takes 256 MiB.
_IMAGE_BYTES_PER_MESSAGE = 64 * 2**20
#: How long a process that was told to end, or has closed its output, may take to exit.
_GRACE_S = 10.0
#: What every message of an Arrow stream begins with.
_MESSAGE_START = b"\xff\xff\xff\xff"
#: Of one message. Text taken for the length of a message is far more, and would be waited for without end.
_MESSAGE_BYTES_MAX = 2**30


class _Request:
    """Rows that were sent and are waited for."""

    def __init__(self, rows: int) -> None:
        self.missing = rows
        self.parts: list[pa.RecordBatch] = []
        self.result: Future[pa.Table] = Future()


class _Bounded:
    """Standard output of the process, as pyarrow reads it: an error at once where it is no Arrow stream."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._is_begun = False

    def read(self, size: int = -1) -> bytes:
        if size > _MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {size} bytes, which is more than {_MESSAGE_BYTES_MAX}")
        data = self._stream.read(size)
        if not self._is_begun and data and not data.startswith(_MESSAGE_START):
            raise ValueError(f"no Arrow stream, it begins with {data!r}")
        self._is_begun = True
        return data

    def close(self) -> None:
        """The stream belongs to whoever opened it."""


class Pipe:
    """One life of a tapir process, which several threads may use at once.

    The caller's thread writes while a thread of its own reads, so neither side ever waits for the other with a full pipe.
    Requests of several threads follow each other in the pipe: while tapir works on one, the next is decoded.

    ``column`` is the name of the column that is sent: ``path`` (text) or ``image`` (bytes). The type of the cells must not
    change from request to request, and an image has at most :data:`~onnx_tapir.columns.IMAGE_BYTES_MAX`.
    """

    def __init__(self, command: Sequence[str], column: str, env: Mapping[str, str] | None = None) -> None:
        self.column = column
        self._command = [*command]
        self._env = None if env is None else {**os.environ, **env}
        self._writing = threading.Lock()
        self._state = threading.Lock()
        self._pending: deque[_Request] = deque()
        self._reason: str | None = None
        self._failure: TapirError | None = None
        self._schema: Future[pa.Schema] = Future()
        self._sent_rows = 0
        self._received_rows = 0
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._stderr = b""
        self._process: subprocess.Popen[bytes] | None = None
        started = threading.Event()
        self._reader = threading.Thread(target=self._run, args=(started,), daemon=True, name="tapir-reader")
        self._reader.start()
        started.wait()
        # Python may not end while the reader's thread is inside pyarrow.
        atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """The process's id; None if it could not be started."""
        return None if self._process is None else self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it has not ended."""
        with self._state:
            return self._failure is None and self._reason is None

    def embed(self, cells: pa.ChunkedArray, timeout_s: float | None = None) -> pa.Table:
        """Sends paths or image bytes, and returns as many rows in their order, which may be 0: :data:`STATUS_COLUMNS` and the features.

        ``timeout_s`` includes the wait for requests before this one; None is any time. Raises :class:`TapirError` if the
        process ends before the last row, or that time passes: then it is ended.
        """
        with self._limit(timeout_s):
            answer = self._send(cells)
            return answer.result() if len(cells) > 0 else self._schema.result().empty_table()

    def describe(self, timeout_s: float | None = None) -> pa.Schema:
        """Sends the end of the input without a row, and returns the columns of the answer. Nothing can be sent any more."""
        with self._limit(timeout_s):
            if self._process is not None and self._process.stdin is not None:
                schema = pa.schema([(self.column, pa.large_string()), (ROW_COLUMN, pa.int64())])
                # A process that has ended says why.
                with contextlib.suppress(OSError, ValueError), self._process.stdin as stream:
                    pa.ipc.new_stream(stream, schema).close()
            return self._schema.result()

    @contextlib.contextmanager
    def _limit(self, timeout_s: float | None) -> Iterator[None]:
        """Ends the process if what is inside takes too long."""
        timer = None if timeout_s is None else threading.Timer(timeout_s, self._fail, [f"took longer than {timeout_s} s"])
        if timer:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer:
                timer.cancel()

    def warnings(self) -> list[str]:
        """What the process has warned of, in the end of its standard error; all of that after :meth:`close`."""
        lines = self._stderr.decode("utf-8", "replace").splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    def close(self) -> None:
        """Ends the process: by the end of its input, or else by force. Requests under way fail."""
        process = self._process
        if process is None or process.stdin is None:
            return
        # A caller that is still writing holds the lock, and cannot be waited for: the process may not read any more.
        if self._writing.acquire(timeout=0.1):
            try:
                # It may have ended before.
                with contextlib.suppress(OSError, ValueError):
                    if self._writer is not None:
                        self._writer.close()
                    process.stdin.close()
            finally:
                self._writing.release()
        else:
            process.terminate()
        atexit.unregister(self.close)
        self._reader.join(_GRACE_S)
        if self._reader.is_alive():
            process.kill()
            self._reader.join(_GRACE_S)

    def _send(self, cells: pa.ChunkedArray) -> Future[pa.Table]:
        request = _Request(len(cells))
        with self._writing:
            with self._state:
                if self._failure is not None:
                    raise self._failure
                if len(cells) > 0:
                    self._pending.append(request)
            first = self._sent_rows
            self._sent_rows += len(cells)
            rows = pa.array(range(first, first + len(cells)), pa.int64())
            table = pa.table({self.column: cells, ROW_COLUMN: rows})
            # There is one, or a failure.
            process = self._process
            assert process is not None and process.stdin is not None
            try:
                if self._writer is None:
                    self._writer = pa.ipc.new_stream(process.stdin, table.schema)
                for batch in _messages(table, self.column):
                    self._writer.write_batch(batch)
                process.stdin.flush()
            except (OSError, ValueError) as error:
                # It reads no more. Mostly it is about to exit and to say why.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)
                self._fail(f"reads no more ({error})")
            except BaseException:
                # Interrupted in the middle of a message: nothing sensible can follow it.
                self._fail("was not told everything")
                raise
        return request.result

    def _run(self, started: threading.Event) -> None:
        """The reader's thread. It starts the process too, because the kernel kills the process when this *thread* ends."""
        # Elsewhere the end of its input has to do: tapir ends there too, after what it has in hand.
        launcher = [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid())] if sys.platform == "linux" else []
        command, pipe = [*launcher, *self._command], subprocess.PIPE
        try:
            self._process = process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env)
        except (OSError, ValueError) as error:
            self._end(f"could not be started: {error}", 127 if isinstance(error, FileNotFoundError) else 126)
            return
        finally:
            started.set()
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        errors = threading.Thread(target=self._keep_tail, args=(process.stderr,), daemon=True, name="tapir-stderr")
        errors.start()
        reason: str | TapirVersionError | None = None
        try:
            with pa.ipc.open_stream(_Bounded(process.stdout)) as batches:
                metadata = batches.schema.metadata or {}
                check_version(metadata.get(b"onnx-tapir.version", b"").decode() or None)
                self._schema.set_result(_answer(batches.schema))
                for batch in batches:
                    self._receive(batch)
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            reason = "closed its output and did not exit"
        except TapirVersionError as error:
            reason = error
        except Exception as error:  # Whatever the bytes were: they are damage, and nobody else would hear of it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                # An output that was cut short because the process died is explained by how it died.
                process.wait(1)
            if process.returncode in (None, 0):
                reason = f"sent what is no answer: {error}"
        finally:
            process.kill()
            process.wait()
        # Something that it started may hold on to its standard error.
        errors.join(1)
        for stream in (process.stdin, process.stdout):
            # The buffer may hold what nobody takes any more.
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        self._end(self._reason or reason or f"ended ({_describe_exit(process.returncode)})", process.returncode)

    def _receive(self, batch: pa.RecordBatch) -> None:
        """Gives the rows of a batch to the requests that they belong to, whatever batches they come in."""
        names = batch.schema.names
        absent = [name for name in (ROW_COLUMN, *STATUS_COLUMNS) if name not in names]
        if absent:
            raise ValueError(f"columns without {', '.join(absent)}")
        rows = batch.column(ROW_COLUMN)
        if not rows.equals(pa.array(range(self._received_rows, self._received_rows + len(rows)), pa.int64())):
            raise ValueError(f"rows in another order than they were sent in, after row {self._received_rows}")
        self._received_rows += len(rows)
        answer = batch.select(_answer(batch.schema).names)
        start = 0
        while start < len(rows):
            with self._state:
                request = self._pending[0] if self._pending else None
            if request is None:
                raise ValueError("more rows than were sent")
            taken = min(request.missing, len(rows) - start)
            request.parts.append(answer.slice(start, taken))
            request.missing -= taken
            start += taken
            if request.missing == 0:
                # First what can fail: whoever has left the queue hears of no failure.
                table = pa.Table.from_batches(request.parts).combine_chunks()
                with self._state:
                    self._pending.popleft()
                request.result.set_result(table)

    def _fail(self, reason: str) -> None:
        """Ends the process for a reason that it does not know, unless it has ended; the reader's thread tells the callers."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        with self._state:
            self._reason = self._reason or reason
        process.kill()

    def _end(self, what: str | TapirVersionError, returncode: int) -> None:
        failure: TapirError
        if isinstance(what, TapirVersionError):
            failure = what
        else:
            stderr = self._stderr.decode("utf-8", "replace").strip()
            message = f"tapir {what}: {' '.join(self._command)}"
            failure = TapirProcessError(f"{message}\n{stderr}" if stderr else message, returncode, stderr)
        with self._state:
            self._failure = failure
            pending, self._pending = [*self._pending], deque()
        for waiting in (self._schema, *(request.result for request in pending)):
            if not waiting.done():
                waiting.set_exception(failure)

    def _keep_tail(self, stream: IO[bytes]) -> None:
        while chunk := stream.read1(_STDERR_TAIL_BYTES):  # type: ignore[attr-defined]
            self._stderr = (self._stderr + chunk)[-_STDERR_TAIL_BYTES:]


def _answer(schema: pa.Schema) -> pa.Schema:
    """What of tapir's columns callers get: the status, then the features."""
    features = [name for name in schema.names if name not in _NOT_FEATURES]
    return pa.schema([schema.field(name) for name in (*STATUS_COLUMNS, *features)])


def _messages(table: pa.Table, column: str) -> Iterator[pa.RecordBatch]:
    """The rows in parts that tapir takes: of no rows one part, which tells it the columns."""
    if table.num_rows == 0:
        yield pa.RecordBatch.from_pylist([], table.schema)
    start, size = 0, 0
    for row, length in enumerate(pc.fill_null(pc.binary_length(table.column(column)), 0).to_pylist()):
        if row - start == _IMAGES_PER_MESSAGE or (row > start and size + length > _IMAGE_BYTES_PER_MESSAGE):
            yield from table.slice(start, row - start).to_batches()
            start, size = row, 0
        size += length
    yield from table.slice(start).to_batches()


def _describe_exit(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
