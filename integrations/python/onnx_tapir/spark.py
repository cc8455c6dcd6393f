"""Spark: a process per Python worker, which the partitions pass through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from .columns import as_lists
from .options import Arguments, EmbedOptions
from .process import TapirProcess, check_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


def embed(frame: DataFrame, **arguments: Unpack[Arguments]) -> DataFrame:
    """Adds features of images to a frame, as arrays; a map is a flat array.

    Args:
        frame: A frame with the column of images. A file at a path is read on the executor's machine.
        **arguments: Those of :class:`~onnx_tapir.EmbedOptions`.

    Returns:
        The frame, not yet computed.

    Raises:
        ValueError: An option is out of range, or the frame lacks the column or has one that is added.
        TapirError: The command, the model or an option does not work on this machine.
    """
    options = EmbedOptions(**arguments)
    added = as_lists(check_options(options, frame.columns).empty_table(), has_half=False).schema
    kept = [field for field in frame.schema if options.keep_column or field.name != options.column]
    return frame.mapInArrow(partial(_embed, options), StructType([*kept, *from_arrow_schema(added)]))


def _embed(options: EmbedOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows > 0)
    # Not closed: Spark keeps the Python worker for the next partition.
    for table in TapirProcess.shared(options).map(tables):
        yield from as_lists(table, has_half=False).to_batches()
