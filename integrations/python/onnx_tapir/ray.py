"""Ray: embedding, an actor per process, and training, an actor per rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import ray.data
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .columns import as_lists
from .errors import TapirProcessError
from .options import EmbedOptions
from .process import IN_FLIGHT, TapirProcess, check_options

_OPTIONS = EmbedOptions.__dataclass_fields__.keys()


def embed(
    dataset: ray.data.Dataset,
    *,
    batch_size: int = 256,
    concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
    **arguments: Any,
) -> ray.data.Dataset:
    """Adds features of images to a dataset; a vector is a list, a map a tensor, of NaN where the image could not be read.

    Args:
        dataset: A dataset with the column of images. A file at a path is read on the node that the actor runs on.
        batch_size: Rows that are handed to the process at a time.
        concurrency: Number of actors, or the smallest and the largest number (and the first) of a pool that Ray scales.
            None: from one to as many as there is room for.
        **arguments: Those of :class:`~onnx_tapir.EmbedOptions`. Anything else goes to ``Dataset.map_batches``:
            ``resources``, ``runtime_env``, ``memory``, …

    Returns:
        The dataset, not yet computed.

    Raises:
        ValueError: An option is out of range.
        TapirError: The command, the model or an option does not work on this machine.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    options = EmbedOptions(**{name: value for name, value in arguments.items() if name in _OPTIONS})
    check_options(options)
    # Ray Data restarts actors whose worker or node went away, and repeats what they had in hand, as often as it takes.
    return dataset.map_batches(
        Embedder,
        fn_constructor_args=(options,),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=_pool(concurrency),
        udf_modifying_row_count=False,
        num_cpus=options.num_cpus,
        num_gpus=options.num_gpus or None,
        **{name: value for name, value in arguments.items() if name not in _OPTIONS},
    )


class Embedder(TapirProcess):
    """What an actor runs."""

    __call__ = TapirProcess.embed_table

    def embed(self, cells: pa.Array | pa.ChunkedArray) -> pa.Table:
        answer = super().embed(cells)
        for at, field in enumerate(answer.schema):
            if isinstance(field.type, pa.FixedShapeTensorType):
                filled = pa.chunked_array([_fill_nulls(chunk) for chunk in answer.column(at).chunks], field.type)
                answer = answer.set_column(at, field, filled)
        return as_lists(answer, has_tensors=True)


def _fill_nulls(tensors: pa.FixedShapeTensorArray) -> pa.FixedShapeTensorArray:
    """NaN (0 where there is none) instead of null: Ray and pyarrow make no numpy array of tensors some of which are null."""
    storage = tensors.storage
    values = storage.drop_null().flatten().to_numpy(zero_copy_only=False)
    size = storage.type.list_size
    filled = np.full((len(storage), size), np.nan if values.dtype.kind == "f" else 0, values.dtype)
    filled[storage.is_valid().to_numpy(zero_copy_only=False)] = values.reshape(-1, size)
    flat = pa.array(filled.reshape(-1), storage.type.value_type)
    return pa.ExtensionArray.from_storage(tensors.type, pa.FixedSizeListArray.from_arrays(flat, type=storage.type))


def _pool(concurrency: int | tuple[int, ...] | None) -> ray.data.ActorPoolStrategy:
    if concurrency is None:
        sizes: dict[str, int] = {"min_size": 1}
    elif isinstance(concurrency, int):
        sizes = {"size": concurrency}
    else:
        sizes = dict(zip(("min_size", "max_size", "initial_size"), concurrency))
    return ray.data.ActorPoolStrategy(**sizes, max_concurrent_calls_per_actor=IN_FLIGHT, enable_true_multi_threading=True)


def train(
    photos: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    num_workers: int,
    flags: Sequence[str] = (),
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_restarts: int = 3,
    tapir: str | Sequence[str] = "tapir",
    env: Mapping[str, str] | None = None,
) -> None:
    """``tapir train`` over ranks on a Ray cluster: writes ``out`` as one process would. Needs torch.

    When a worker or its machine goes away, all ranks start again, ``max_restarts`` times, from the checkpoint beside ``out``. So
    ``photos``, ``model`` and ``out`` are paths that every machine shares. ``flags`` are more flags of ``tapir train``, such as
    ``["--train", "layer4,fc"]``. Raises :class:`TapirProcessError` with the command's exit code.
    """
    command = [*([tapir] if isinstance(tapir, str) else tapir), "train", os.fspath(photos)]
    command += ["--model", os.fspath(model), "--out", os.fspath(out), *flags]
    for restarts in range(max_restarts + 1):
        group = placement_group([{"CPU": num_cpus, "GPU": num_gpus} if num_gpus else {"CPU": num_cpus}] * num_workers)
        ranks = []
        try:
            ray.get(group.ready())
            worker = ray.remote(_Worker).options(
                num_cpus=num_cpus, num_gpus=num_gpus, scheduling_strategy=PlacementGroupSchedulingStrategy(group)
            )
            ranks = [worker.remote() for _ in range(num_workers)]
            hosts, ports = zip(*ray.get([rank.address.remote() for rank in ranks]))
            shared = {**(env or {}), "MASTER_ADDR": hosts[0], "MASTER_PORT": str(ports[0]), "WORLD_SIZE": str(num_workers)}
            own = [{"RANK": str(i), "LOCAL_WORLD_SIZE": str(hosts.count(host))} for i, host in enumerate(hosts)]
            running = [rank.run.remote(command, {**shared, **one}) for rank, one in zip(ranks, own)]
            # The first to fail is the cause, or close to it.
            while running:
                [ended], running = ray.wait(running)
                code = ray.get(ended)
                if code != 0:
                    raise TapirProcessError(f"a rank of tapir train has ended with exit code {code}", code)
            return
        except (ray.exceptions.RayActorError, TapirProcessError) as error:
            # Wrong flags: they would be as wrong again.
            if restarts == max_restarts or getattr(error, "is_final", False):
                raise
        finally:
            for rank in ranks:
                ray.kill(rank)
            remove_placement_group(group)


class _Worker:
    """What an actor of a rank runs."""

    def address(self) -> tuple[str, int]:
        """Its machine, and a free port there: where rank 0 listens."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        from .rank import Rank

        os.environ.update(env)
        # 1: done, and some photos could not be read.
        return Rank(command).run(left_out_code=1)
