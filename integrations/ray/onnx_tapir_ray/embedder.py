"""What a Ray actor runs: batches of a dataset through one tapir process."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import TapirProcessError
from .process import IMAGE_BYTES_MAX, STATUS_COLUMNS, TapirProcess


@dataclass(frozen=True)
class EmbedderOptions:
    """What an actor needs to know."""

    #: Command line up to ``--column``, which depends on the type of the column.
    command: tuple[str, ...]
    column: str
    keep_column: bool
    #: Fresh processes that a batch is given after the first.
    retries: int
    timeout_s: float | None
    env: Mapping[str, str] | None


class Embedder:
    """Adds features to batches. Threads may call it at once: they share the process."""

    def __init__(self, options: EmbedderOptions) -> None:
        self._options = options
        self._starting = threading.Lock()
        self._process: TapirProcess | None = None

    def __call__(self, table: pa.Table) -> pa.Table:
        options = self._options
        if table.num_rows == 0:
            return table
        name, cells = _read_column(table, options.column)
        too_large = pc.fill_null(pc.greater(pc.binary_length(cells), IMAGE_BYTES_MAX), False)
        if pc.any(too_large).as_py():
            # One such image would break the stream for all others.
            cells = pc.if_else(too_large, pa.scalar(None, cells.type), cells)
        for attempt in range(options.retries + 1):
            process = self._running(name)
            try:
                answer = process.embed(cells, options.timeout_s)
                break
            except TapirProcessError as error:
                if error.is_final or attempt == options.retries:
                    raise
        answer = _mark_too_large(answer, too_large)
        kept = table if options.keep_column else table.drop_columns([options.column])
        return _join(kept, answer)

    def close(self) -> None:
        """Ends the process. The next batch would start another."""
        with self._starting:
            if self._process is not None:
                self._process.close()
                self._process = None

    def __del__(self) -> None:
        # Ray drops the object when the actor ends in peace; when it is killed, the kernel ends the process.
        with contextlib.suppress(Exception):
            self.close()

    def _running(self, name: str) -> TapirProcess:
        """The process, or a fresh one if that has ended or takes another kind of column."""
        with self._starting:
            process = self._process
            if process is None or not process.is_usable or process.column != name:
                if process is not None:
                    process.close()
                command = [*self._options.command, "--column", name]
                process = self._process = TapirProcess(command, name, self._options.env)
            return process


def _read_column(table: pa.Table, column: str) -> tuple[str, pa.ChunkedArray]:
    """The column's name for tapir, and its cells as the type that tapir takes."""
    if column not in table.column_names:
        raise ValueError(f"column={column!r}: the dataset has {', '.join(table.column_names)}")
    cells = table.column(column)
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "path", cells.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "image", cells.cast(pa.large_binary())
    raise TypeError(
        f"column={column!r} is {kind}; it must be text (paths) or binary (the bytes of image files, as "
        "ray.data.read_binary_files gives them; ray.data.read_images gives pixels)"
    )


def _mark_too_large(answer: pa.Table, too_large: pa.ChunkedArray) -> pa.Table:
    """Says of images that were left out why; tapir has seen a null instead."""
    if not pc.any(too_large).as_py():
        return answer
    message = f"cannot read an image: it has more than {IMAGE_BYTES_MAX} bytes, which is too much for a pipe; give its path"
    for name, said in (("error_code", "IMAGE_TOO_LARGE"), ("error_message", message)):
        at = answer.column_names.index(name)
        answer = answer.set_column(at, answer.schema.field(name), pc.if_else(too_large, said, answer.column(name)))
    return answer


def _join(table: pa.Table, answer: pa.Table) -> pa.Table:
    taken = [name for name in answer.column_names if name in table.column_names]
    if taken:
        raise ValueError(
            f"the dataset has a column {', '.join(taken)} already, which tapir adds: rename it before, or name the output "
            f"otherwise; added are {', '.join(STATUS_COLUMNS)} and a column per output"
        )
    for name in answer.column_names:
        column = answer.column(name)
        if isinstance(column.type, pa.FixedShapeTensorType) and column.null_count > 0:
            column = pa.chunked_array([_fill_nulls(chunk) for chunk in column.chunks], column.type)
        table = table.append_column(answer.schema.field(name), column)
    return table


def _fill_nulls(tensors: pa.FixedShapeTensorArray) -> pa.FixedShapeTensorArray:
    """NaN (0 where there is none) instead of null: Ray and pyarrow make no numpy array of tensors some of which are null."""
    storage = tensors.storage
    values = storage.drop_null().flatten().to_numpy(zero_copy_only=False)
    size = storage.type.list_size
    filled = np.full((len(storage), size), np.nan if values.dtype.kind == "f" else 0, values.dtype)
    filled[storage.is_valid().to_numpy(zero_copy_only=False)] = values.reshape(-1, size)
    flat = pa.array(filled.reshape(-1), storage.type.value_type)
    return pa.ExtensionArray.from_storage(tensors.type, pa.FixedSizeListArray.from_arrays(flat, type=storage.type))
