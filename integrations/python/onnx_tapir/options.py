"""The arguments, which are the same for every engine."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict


class Arguments(TypedDict, total=False):
    """The fields of :class:`EmbedOptions`, as the engines' ``embed`` takes them."""

    model: str | os.PathLike[str]
    return_nodes: str | Sequence[str] | Mapping[str, str]
    column: str
    keep_column: bool
    transform: str | None
    model_batch: int | None
    num_cpus: float
    num_gpus: float | None
    devices: str | None
    tapir: str | Sequence[str]
    flags: Sequence[str]
    env: Mapping[str, str] | None
    retries: int
    timeout_s: float | None


@dataclass(frozen=True)
class EmbedOptions:
    """What to embed, and with what. Checked when it is made; raises ``ValueError``."""

    #: ONNX file, at this path on every machine.
    model: str | os.PathLike[str]
    #: What to return: a name, names, or a mapping from name to the column to write: ``{"avgpool": "embedding"}``.
    return_nodes: str | Sequence[str] | Mapping[str, str]
    #: Column of text (paths, which are read on the worker's machine, or URLs, with ``--allow-http`` in ``flags``) or of binary (the bytes of image files).
    column: str = "path"
    #: Whether the result keeps ``column``; False drops images once they are embedded.
    keep_column: bool = True
    #: Preprocessing; by default that of the configuration beside the model, else ``ImageNet1K_V1``.
    transform: str | None = None
    #: Images per run of the model; tapir's default is 8 on the CPU and 32 on a GPU.
    model_batch: int | None = None
    #: CPU cores of each process: threads of the model, or on a GPU those that decode.
    num_cpus: float = 1
    #: GPUs of each process; None or 0: the CPU. The engine makes them visible, so they count from 0.
    num_gpus: float | None = None
    #: Devices for tapir instead of those that follow from ``num_gpus``, such as ``auto``.
    devices: str | None = None
    #: The command on the machines, or its parts: ``["node", "/opt/tapir/dist/lib/bin.cjs"]``.
    tapir: str | Sequence[str] = "tapir"
    #: More flags of ``tapir embed``.
    flags: Sequence[str] = ()
    #: Environment variables of the process, besides the worker's own.
    env: Mapping[str, str] | None = None
    #: Fresh processes that a batch gets when the process ends under it, before the error is the engine's.
    retries: int = 2
    #: Seconds that a batch may take, the start of the process and the batch before it included. None: any time.
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries must be at least 0, not {self.retries}")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"timeout_s must be more than 0, not {self.timeout_s}")
        if not self.tapir:
            raise ValueError("tapir must be a command, not an empty one")
        if not self.return_nodes:
            raise ValueError("return_nodes must name at least one node")

    def command(self, is_check: bool = False) -> list[str]:
        """The command line up to ``--column``. A check runs on the driver, which may have no GPU."""
        device = _device_flags(0, 1, None) if is_check else _device_flags(self.num_gpus or 0, self.num_cpus, self.devices)
        return [
            *([self.tapir] if isinstance(self.tapir, str) else self.tapir),
            *("embed", "-", "--format", "arrow", "--out", "-", "--model", os.fspath(self.model)),
            *(part for request in self._requests() for part in ("--return", request)),
            *device,
            *([] if self.transform is None else ["--transform", self.transform]),
            *([] if self.model_batch is None else ["--batch", str(self.model_batch)]),
            *self.flags,
        ]

    def _requests(self) -> list[str]:
        if isinstance(self.return_nodes, str):
            return [self.return_nodes]
        if isinstance(self.return_nodes, Mapping):
            return [f"{node}={key}" for node, key in self.return_nodes.items()]
        return [*self.return_nodes]


def _device_flags(num_gpus: float, num_cpus: float, devices: str | None) -> list[str]:
    cores = str(max(1, math.ceil(num_cpus)))
    if devices is not None:
        return ["--devices", devices, "--set", f"decodeThreads={cores}"]
    if num_gpus >= 2:
        listed = ",".join(f"cuda:{i}" for i in range(math.floor(num_gpus)))
        return ["--devices", listed, "--set", f"decodeThreads={cores}"]
    if num_gpus > 0:
        return ["--device", "cuda", "--set", f"decodeThreads={cores}"]
    return ["--device", "cpu", "--set", "sessions=1", "--set", f"threads={cores}", "--set", f"decodeThreads={cores}"]
