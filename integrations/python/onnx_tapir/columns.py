"""Columns: the images that go in, and the answer that joins the others."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

#: What tapir says of each row, besides the features.
STATUS_COLUMNS = ("status", "error_code", "error_message")
#: Of one image that is sent as bytes.
IMAGE_BYTES_MAX = 192 * 2**20


def check_columns(columns: Iterable[str], column: str, added: Iterable[str]) -> None:
    """Raises ``ValueError`` if the images' column is missing, or one that tapir adds is there already."""
    columns = [*columns]
    if column not in columns:
        raise ValueError(f"column={column!r}: the dataset has {', '.join(map(str, columns))}")
    taken = [name for name in added if name in columns]
    if taken:
        raise ValueError(
            f"the dataset has a column {', '.join(taken)} already, which tapir adds: rename it before, or name the output "
            f"otherwise; added are {', '.join(STATUS_COLUMNS)} and a column per output"
        )


#: The columns that tapir takes, and their types.
CELL_TYPES = {"path": pa.large_string(), "image": pa.large_binary()}


def name_cells(cells: pa.Array | pa.ChunkedArray, column: str) -> str | None:
    """The column's name for tapir; None where nothing but nulls is there, of whatever type: an engine infers it part by part."""
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "path"
    is_fixed = pa.types.is_fixed_size_binary(kind)
    if is_fixed or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "image"
    # pandas has NaN for a missing text.
    if pc.sum(pc.is_null(cells, nan_is_null=True)).as_py() in (None, len(cells)):
        return None
    raise TypeError(f"column={column!r} is {kind}; it must be text (paths or URLs) or binary (the bytes of image files, not pixels)")


def read_cells(cells: pa.Array | pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The cells as the type that tapir takes."""
    if isinstance(cells, pa.Array):
        cells = pa.chunked_array([cells])
    kind = CELL_TYPES[name]
    if pc.all(pc.is_null(cells, nan_is_null=True)).as_py():
        return pa.chunked_array([pa.nulls(len(cells), kind)], kind)
    if pa.types.is_fixed_size_binary(cells.type):
        cells = cells.cast(pa.binary())
    return cells.cast(kind)


def leave_out_too_large(cells: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The cells without images that would break the stream for all others, and which those are."""
    too_large = pc.fill_null(pc.greater(pc.binary_length(cells), IMAGE_BYTES_MAX), False)
    if pc.any(too_large).as_py():
        cells = pc.if_else(too_large, pa.scalar(None, cells.type), cells)
    return cells, too_large


def mark_too_large(answer: pa.Table, too_large: pa.ChunkedArray) -> pa.Table:
    """Says of images that were left out why; tapir has seen a null instead."""
    if not pc.any(too_large).as_py():
        return answer
    message = f"cannot read an image: it has more than {IMAGE_BYTES_MAX} bytes, which is too much for a pipe; give its path"
    for name, said in (("error_code", "IMAGE_TOO_LARGE"), ("error_message", message)):
        at = answer.column_names.index(name)
        answer = answer.set_column(at, answer.schema.field(name), pc.if_else(too_large, said, answer.column(name)))
    return answer


def append(table: pa.Table, answer: pa.Table) -> pa.Table:
    """The table with the answer's columns behind its own."""
    for field, column in zip(answer.schema, answer.columns):
        table = table.append_column(field, column)
    return table


def as_lists(answer: pa.Table, *, has_half: bool = True, has_tensors: bool = False) -> pa.Table:
    """Vectors as lists, and maps as flat ones unless the engine has tensors; of float32 if it has no float16.

    Lists of any size: pyarrow reads no Parquet file with lists of fixed size some of which are null.
    """
    for at, field in enumerate(answer.schema):
        is_tensor = isinstance(field.type, pa.BaseExtensionType)
        kind = field.type.storage_type if is_tensor else field.type
        if not pa.types.is_fixed_size_list(kind) or (is_tensor and has_tensors):
            continue
        values = pa.float32() if kind.value_type == pa.float16() and not has_half else kind.value_type
        chunks = [chunk.storage if is_tensor else chunk for chunk in answer.column(at).chunks]
        column = pa.chunked_array(chunks, kind).cast(pa.list_(values))
        answer = answer.set_column(at, pa.field(field.name, column.type), column)
    return answer
