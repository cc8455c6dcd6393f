"""See ``onnx_tapir.TapirProcess``, which also restarts."""

from onnx_tapir.pipe import Pipe as TapirProcess

__all__ = ["TapirProcess"]
