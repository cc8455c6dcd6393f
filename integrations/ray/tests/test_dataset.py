"""What `embed` hands to Ray."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_tapir_ray import embed
from onnx_tapir_ray.embedder import Embedder


class Recorder:
    """Stands for a dataset."""

    def map_batches(self, function: Any, **given: Any) -> dict[str, Any]:
        assert function is Embedder
        return given


def plan(**given: Any) -> dict[str, Any]:
    return embed(Recorder(), **{"model": "m.onnx", "return_nodes": "avgpool", **given})  # type: ignore[arg-type]


def command(**given: Any) -> str:
    return " ".join(plan(**given)["fn_constructor_args"][0].command)


def test_the_command() -> None:
    cpu = "--device cpu --sessions 1 --threads 1 --decode-threads 1"
    assert command() == f"tapir embed - --format arrow --out - --model m.onnx --return avgpool {cpu}"
    assert command(tapir=["node", "bin.cjs"]).startswith("node bin.cjs embed - ")
    assert "--return layer4 --return avgpool " in command(return_nodes=["layer4", "avgpool"])
    assert "--return layer4=map --return avgpool=vector" in command(return_nodes={"layer4": "map", "avgpool": "vector"})
    assert command(transform="ImageNet1K_V2", model_batch=16, flags=["--l2-normalize"]).endswith(
        "--transform ImageNet1K_V2 --batch 16 --l2-normalize"
    )


@pytest.mark.parametrize(
    ("num_gpus", "flag"),
    [(1, "--device cuda "), (0.5, "--device cuda "), (2, "--devices cuda:0,cuda:1 "), (0, "--device cpu ")],
)
def test_the_devices_follow_from_ray(num_gpus: float, flag: str) -> None:
    assert flag in command(num_gpus=num_gpus, num_cpus=8)
    assert "--decode-threads 8" in command(num_gpus=num_gpus, num_cpus=8)
    assert "--devices auto" in command(num_gpus=num_gpus, devices="auto")


def test_what_ray_is_told() -> None:
    told = plan(num_gpus=1, num_cpus=4, batch_size=64, resources={"disk": 1})
    assert {key: told[key] for key in ("num_gpus", "num_cpus", "batch_size", "batch_format", "resources")} == {
        "num_gpus": 1,
        "num_cpus": 4,
        "batch_size": 64,
        "batch_format": "pyarrow",
        "resources": {"disk": 1},
    }
    assert plan()["num_gpus"] is None


@pytest.mark.parametrize(
    ("concurrency", "sizes"), [(None, (1, float("inf"), 1)), (3, (3, 3, 3)), ((1, 4), (1, 4, 1)), ((1, 4, 2), (1, 4, 2))]
)
def test_the_pool(concurrency: Any, sizes: tuple) -> None:
    pool = plan(concurrency=concurrency)["compute"]
    assert (pool.min_size, pool.max_size, pool.initial_size) == sizes
    # Two batches at once share the process: it never waits for the next one.
    assert (pool.max_concurrent_calls_per_actor, pool.enable_true_multi_threading) == (2, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"retries": -1}, "retries must be at least 0, not -1"),
        ({"timeout_s": 0}, "timeout_s must be more than 0, not 0"),
        ({"tapir": []}, "tapir must be a command"),
        ({"return_nodes": []}, "return_nodes must name at least one node"),
    ],
)
def test_wrong_options(given: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        plan(**given)
