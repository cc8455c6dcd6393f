"""The version of this package, which must fit the Node package on every machine."""

from __future__ import annotations

from .errors import TapirVersionError

__version__ = "0.1.0"


def check_version(node: str | None) -> None:
    """Compares with the version that the Node package states in its answer: major and minor must be equal."""
    if node is None or node.split(".")[:2] != __version__.split(".")[:2]:
        stated = "an older one, which does not state its version" if node is None else node
        raise TapirVersionError(
            f"the Python package onnx-tapir is {__version__}, the command tapir here is {stated}: install the same "
            f"version of both on every machine, such as npm install --global onnx-tapir@{__version__}"
        )
