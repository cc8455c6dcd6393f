"""``embed``: a Ray Dataset with features as columns."""

from __future__ import annotations

import math
import os
from typing import Any
from collections.abc import Mapping, Sequence

import ray.data

from .embedder import Embedder, EmbedderOptions

#: Batches that an actor has under way: while the model works on one, images of the next are decoded.
_BATCHES_AT_ONCE = 2


def embed(
    dataset: ray.data.Dataset,
    *,
    model: str | os.PathLike[str],
    return_nodes: str | Sequence[str] | Mapping[str, str],
    column: str = "path",
    transform: str | None = None,
    batch_size: int = 256,
    model_batch: int | None = None,
    num_gpus: float | None = None,
    num_cpus: float = 1,
    devices: str | None = None,
    concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
    tapir: str | Sequence[str] = "tapir",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    keep_column: bool = True,
    retries: int = 2,
    timeout_s: float | None = None,
    **map_options: Any,
) -> ray.data.Dataset:
    """Adds features of images to a dataset, with one long-lived tapir process per actor.

    Added are ``status`` (``ok`` or ``error``), ``error_code``, ``error_message`` and a column per output: a vector is a list of
    fixed size, null where the image could not be read; a map is a tensor, of NaN there. Such an image is a row, not an
    exception. The other columns stay as they are.

    Args:
        dataset: A dataset with the column below. A file at a path is read on the node that the actor runs on.
        model: ONNX file, at this path on every node.
        return_nodes: What to return: a name, names, or a mapping from name to the column to write, such as
            ``{"avgpool": "embedding"}``.
        column: Column of text (paths) or binary (the bytes of image files).
        transform: Preprocessing; by default that of the configuration beside the model, else ``ImageNet1K_V1``.
        batch_size: Rows that are handed to the process at a time.
        model_batch: Images per run of the model; tapir's default is 8 on the CPU and 32 on a GPU.
        num_gpus: GPUs of each actor, as Ray counts them; a fraction lets actors share one. None or 0: the CPU.
        num_cpus: CPU cores of each actor: threads of the model, or on a GPU those that decode.
        devices: Devices for tapir instead of those that follow from ``num_gpus``, such as ``auto``.
        concurrency: Number of actors, or the smallest and the largest number (and the first) of a pool that Ray scales.
            None: from one to as many as there is room for.
        tapir: The command on the nodes, or its parts: ``["node", "/opt/tapir/dist/lib/bin.cjs"]``.
        flags: More flags of ``tapir embed``.
        env: Environment variables of the process, besides the actor's own.
        keep_column: Whether the result keeps ``column``; False drops images once they are embedded.
        retries: Fresh processes that a batch gets when the process ends under it, before the error is Ray's.
        timeout_s: Seconds that a batch may take, the start of the process and the batch before it included. None: any time.
        **map_options: What else ``Dataset.map_batches`` takes: ``resources``, ``runtime_env``, ``memory``, …

    Returns:
        The dataset, not yet computed.

    Raises:
        ValueError: An option is out of range. When the dataset is computed, ``TapirProcessError`` inside Ray's own error if
            a process failed ``retries + 1`` times; its message ends with what the process wrote to standard error.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    if retries < 0:
        raise ValueError(f"retries must be at least 0, not {retries}")
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError(f"timeout_s must be more than 0, not {timeout_s}")
    options = EmbedderOptions(
        command=(
            *_read_command(tapir),
            *("embed", "-", "--format", "arrow", "--out", "-", "--model", os.fspath(model)),
            *_return_flags(return_nodes),
            *_device_flags(num_gpus or 0, num_cpus, devices),
            *([] if transform is None else ["--transform", transform]),
            *([] if model_batch is None else ["--batch", str(model_batch)]),
            *flags,
        ),
        column=column,
        keep_column=keep_column,
        retries=retries,
        timeout_s=timeout_s,
        env=env,
    )
    # Ray Data restarts actors whose worker or node went away, and repeats what they had in hand, as often as it takes.
    return dataset.map_batches(
        Embedder,
        fn_constructor_args=(options,),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=_pool(concurrency),
        udf_modifying_row_count=False,
        num_cpus=num_cpus,
        num_gpus=num_gpus or None,
        **map_options,
    )


def _read_command(tapir: str | Sequence[str]) -> list[str]:
    command = [tapir] if isinstance(tapir, str) else [*tapir]
    if not command:
        raise ValueError("tapir must be a command, not an empty list")
    return command


def _return_flags(return_nodes: str | Sequence[str] | Mapping[str, str]) -> list[str]:
    if isinstance(return_nodes, str):
        requests = [return_nodes]
    elif isinstance(return_nodes, Mapping):
        requests = [f"{node}={key}" for node, key in return_nodes.items()]
    else:
        requests = [*return_nodes]
    if not requests:
        raise ValueError("return_nodes must name at least one node")
    return [part for request in requests for part in ("--return", request)]


def _device_flags(num_gpus: float, num_cpus: float, devices: str | None) -> list[str]:
    cores = str(max(1, math.ceil(num_cpus)))
    if devices is not None:
        return ["--devices", devices, "--decode-threads", cores]
    if num_gpus > 0:
        # Ray leaves an actor its own GPUs in CUDA_VISIBLE_DEVICES, so they count from 0.
        listed = ",".join(f"cuda:{i}" for i in range(math.floor(num_gpus))) if num_gpus >= 2 else "cuda"
        return ["--devices" if "," in listed else "--device", listed, "--decode-threads", cores]
    return ["--device", "cpu", "--sessions", "1", "--threads", cores, "--decode-threads", cores]


def _pool(concurrency: int | tuple[int, ...] | None) -> ray.data.ActorPoolStrategy:
    if concurrency is None:
        sizes: dict[str, int] = {"min_size": 1}
    elif isinstance(concurrency, int):
        sizes = {"size": concurrency}
    else:
        sizes = dict(zip(("min_size", "max_size", "initial_size"), concurrency))
    return ray.data.ActorPoolStrategy(
        **sizes, max_concurrent_calls_per_actor=_BATCHES_AT_ONCE, enable_true_multi_threading=True
    )
