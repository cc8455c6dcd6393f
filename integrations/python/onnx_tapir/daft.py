"""Daft: a process per machine, behind a class UDF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import daft
import pyarrow as pa

from .columns import as_lists
from .options import Arguments, EmbedOptions
from .process import TapirProcess, check_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


def embed(frame: daft.DataFrame, *, batch_size: int = 256, **arguments: Unpack[Arguments]) -> daft.DataFrame:
    """Adds features of images to a frame, as lists; a map is a flat list.

    Args:
        frame: A frame with the column of images. A file at a path is read where the process runs.
        batch_size: Rows that are handed to the process at a time.
        **arguments: Those of :class:`~onnx_tapir.EmbedOptions`; ``num_cpus`` is what spreads the work over cores.

    Returns:
        The frame, not yet computed.

    Raises:
        ValueError: An option is out of range, or the frame lacks the column or has one that is added.
        TapirError: The command, the model or an option does not work on this machine.
    """
    options = EmbedOptions(**arguments)
    added = as_lists(check_options(options, frame.column_names).empty_table()).schema
    struct = daft.DataType.struct({field.name: daft.DataType.from_arrow_type(field.type) for field in added})

    # Without max_concurrency, which puts instances into processes: Daft's job ends when one of those is killed.
    @daft.cls(gpus=options.num_gpus or 0, use_process=False)
    class Embedder:
        def __init__(self, options: EmbedOptions) -> None:
            # Daft keeps instances for an unknown time.
            self.process = TapirProcess.shared(options)

        @daft.method.batch(return_dtype=struct, unnest=True, batch_size=batch_size)
        def embed(self, images: daft.Series) -> pa.Array:
            answer = as_lists(self.process.embed(images.to_arrow()))
            return answer.to_struct_array().combine_chunks()

    kept = frame.column_names if options.keep_column else [name for name in frame.column_names if name != options.column]
    # Called with an expression, it is an expression.
    return frame.select(*kept, Embedder(options).embed(frame[options.column]))  # type: ignore[arg-type]
