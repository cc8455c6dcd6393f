"""onnx-tapir for Python: images in, features of ONNX models out, on one machine or many.

``onnx_tapir.ray``, ``onnx_tapir.spark``, ``onnx_tapir.dask`` and ``onnx_tapir.daft`` have a function ``embed`` each.
"""

from .errors import TapirError, TapirProcessError, TapirVersionError
from .options import Arguments, EmbedOptions
from .process import TapirProcess, check_options
from .version import __version__

__all__ = [
    "Arguments",
    "EmbedOptions",
    "TapirError",
    "TapirProcess",
    "TapirProcessError",
    "TapirVersionError",
    "__version__",
    "check_options",
]
