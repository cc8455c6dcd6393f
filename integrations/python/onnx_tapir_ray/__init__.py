"""The name of this package when it was for Ray alone. Import ``onnx_tapir.ray``; this name goes with the next release."""

from onnx_tapir import TapirProcessError
from onnx_tapir.ray import embed

__all__ = ["TapirProcessError", "embed"]
