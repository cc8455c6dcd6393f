"""onnx-tapir in Ray Data: a column of images in, a column of features out."""

from .dataset import embed
from .errors import TapirProcessError

__all__ = ["TapirProcessError", "embed"]
