"""``TapirProcess``: images in, features out, whatever happens to the process behind it."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from . import columns
from .errors import TapirError
from .options import EmbedOptions
from .pipe import Pipe

#: Tables under way: while the model works on one, images of the next are decoded.
IN_FLIGHT = 2
#: Processes that functions of one worker share; the one that was used longest ago ends when there are more.
_SHARED_MAX = 2


class TapirProcess:
    """A long-lived ``tapir embed``, which starts with the first images and is replaced when it dies. Threads may share it.

    >>> with TapirProcess(EmbedOptions("resnet50.onnx", {"avgpool": "embedding"})) as process:
    ...     process.embed(pa.array(["photos/cat.jpg"]))["embedding"]
    """

    _all: OrderedDict[str, TapirProcess] = OrderedDict()
    _all_lock = threading.Lock()

    def __init__(self, options: EmbedOptions) -> None:
        self.options = options
        self._starting = threading.Lock()
        self._pipe: Pipe | None = None

    @classmethod
    def shared(cls, options: EmbedOptions) -> TapirProcess:
        """The process of this worker for these options, for engines that call functions: it outlives the call."""
        key = f"{os.getpid()} {options!r}"
        with cls._all_lock:
            process = cls._all.setdefault(key, cls(options))
            cls._all.move_to_end(key)
            ended = [cls._all.popitem(last=False)[1] for _ in range(len(cls._all) - _SHARED_MAX)]
        for other in ended:
            other.close()
        return process

    @classmethod
    def close_shared(cls) -> None:
        """Ends the shared processes of this worker; the next call starts another. Otherwise they end with Python."""
        with cls._all_lock:
            ended = [*cls._all.values()]
            cls._all.clear()
        for process in ended:
            process.close()

    def embed(self, cells: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Embeds a column of paths, URLs (text) or images (binary).

        Returns as many rows in their order: ``status`` (``ok`` or ``error``), ``error_code``, ``error_message`` and a column
        per output, null where the image could not be read; a null is ``IMAGE_EMPTY``. Raises :class:`TapirError` if the process failed
        ``retries + 1`` times; its message ends with what the process wrote to standard error.
        """
        name = columns.name_cells(cells, self.options.column)
        for attempt in range(self.options.retries + 1):
            pipe = self._running(name)
            sent, too_large = columns.leave_out_too_large(columns.read_cells(cells, pipe.column))
            try:
                return columns.mark_too_large(pipe.embed(sent, self.options.timeout_s), too_large)
            except TapirError as error:
                if error.is_final or attempt == self.options.retries:
                    raise
        raise AssertionError("there is at least one attempt")

    def embed_table(self, table: pa.Table) -> pa.Table:
        """Adds what :meth:`embed` returns to a table that has the column of the options. Other columns pass through."""
        column = self.options.column
        if table.num_rows == 0:
            return table
        columns.check_columns(table.column_names, column, columns.STATUS_COLUMNS)
        answer = self.embed(table.column(column))
        columns.check_columns(table.column_names, column, answer.column_names)
        return columns.append(table if self.options.keep_column else table.drop_columns([column]), answer)

    def map(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """:meth:`embed_table` of each table, in order, with two of them under way."""
        waiting: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            for table in tables:
                waiting.append(threads.submit(self.embed_table, table))
                if len(waiting) == IN_FLIGHT:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def restart(self) -> None:
        """Ends the process; the next images start another. Images under way are sent to that one."""
        self.close()

    def close(self) -> None:
        """Ends the process."""
        with self._starting:
            if self._pipe is not None:
                self._pipe.close()
                self._pipe = None

    def __enter__(self) -> TapirProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # An engine drops the object when a worker ends in peace; when it is killed, the kernel ends the process.
        with contextlib.suppress(Exception):
            self.close()

    def _running(self, name: str | None) -> Pipe:
        """The process, or a fresh one if that has ended or takes another kind of column; None: any kind will do."""
        with self._starting:
            pipe = self._pipe
            if pipe is None or not pipe.is_usable or name not in (None, pipe.column):
                if pipe is not None:
                    pipe.close()
                name = name or (pipe.column if pipe is not None else "path")
                pipe = self._pipe = Pipe([*self.options.command(), "--column", name], name, self.options.env)
            return pipe


def check_options(options: EmbedOptions, dataset_columns: Iterable[str] | None = None) -> pa.Schema:
    """Checks on the driver, before anything is scheduled, that the command, its version, the model and the options work.

    Starts the command once, on the CPU and without an image. Returns the columns that will be added. Passes on what the
    command warns of, such as an assumed transform. Raises :class:`TapirError`, and ``ValueError`` for columns that do not fit.
    """
    pipe = Pipe([*options.command(is_check=True), "--column", "path"], "path", options.env)
    try:
        added = pipe.describe(options.timeout_s)
    finally:
        pipe.close()
    # On the workers they go into a log that nobody reads: a wrong transform would be found by its numbers only.
    for text in pipe.warnings():
        warnings.warn(text, stacklevel=3)
    if dataset_columns is not None:
        columns.check_columns(dataset_columns, options.column, added.names)
    return added
