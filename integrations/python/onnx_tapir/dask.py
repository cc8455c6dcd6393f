"""Dask: a process per worker, which the partitions pass through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from .columns import as_lists
from .options import Arguments, EmbedOptions
from .process import TapirProcess, check_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


def embed(frame: dd.DataFrame, **arguments: Unpack[Arguments]) -> dd.DataFrame:
    """Adds features of images to a frame, as Arrow lists; a map is a flat list.

    Args:
        frame: A frame with the column of images. A file at a path is read on the worker's machine.
        **arguments: Those of :class:`~onnx_tapir.EmbedOptions`.

    Returns:
        The frame, not yet computed.

    Raises:
        ValueError: An option is out of range, or the frame lacks the column or has one that is added.
        TapirError: The command, the model or an option does not work on this machine.
    """
    options = EmbedOptions(**arguments)
    added = as_lists(check_options(options, frame.columns).empty_table()).schema
    return frame.map_partitions(_embed, options, added, meta=_join(frame._meta, added.empty_table(), options))


def _embed(frame: pd.DataFrame, options: EmbedOptions, added: pa.Schema) -> pd.DataFrame:
    if len(frame) == 0:
        return _join(frame, added.empty_table(), options)
    # Two tasks of a worker share the process: while the model works on one, images of the other are decoded.
    answer = TapirProcess.shared(options).embed(pa.chunked_array([pa.array(frame[options.column], from_pandas=True)]))
    return _join(frame, as_lists(answer), options)


def _join(frame: pd.DataFrame, answer: pa.Table, options: EmbedOptions) -> pd.DataFrame:
    kept = frame if options.keep_column else frame.drop(columns=options.column)
    # Not by assign(), whose arguments are names: an output may be called "self".
    joined = kept.copy(deep=False)
    for name in answer.column_names:
        joined[name] = pd.Series(pd.arrays.ArrowExtensionArray(answer.column(name)), index=frame.index)
    return joined
