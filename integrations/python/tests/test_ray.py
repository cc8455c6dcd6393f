"""What `embed` hands to Ray, and what its actors give back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("ray.data", reason="NOT RUN: ray is not installed")
import numpy as np  # noqa: E402

from onnx_tapir import TapirProcessError  # noqa: E402
from onnx_tapir.ray import Embedder, embed  # noqa: E402

from .conftest import FAKE, paths  # noqa: E402
from .fake_tapir import features  # noqa: E402


class Recorder:
    """Stands for a dataset."""

    def map_batches(self, function: Any, **given: Any) -> dict[str, Any]:
        assert function is Embedder
        return given


def plan(**given: Any) -> dict[str, Any]:
    return embed(Recorder(), **{"model": "m.onnx", "return_nodes": "avgpool", "tapir": FAKE, **given})  # type: ignore[arg-type]


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
    assert told["fn_constructor_args"][0].num_cpus == 4


@pytest.mark.parametrize(
    ("concurrency", "sizes"), [(None, (1, float("inf"), 1)), (3, (3, 3, 3)), ((1, 4), (1, 4, 1)), ((1, 4, 2), (1, 4, 2))]
)
def test_the_pool(concurrency: Any, sizes: tuple) -> None:
    pool = plan(concurrency=concurrency)["compute"]
    assert (pool.min_size, pool.max_size, pool.initial_size) == sizes
    # Two batches at once share the process: it never waits for the next one.
    assert (pool.max_concurrent_calls_per_actor, pool.enable_true_multi_threading) == (2, True)


def test_what_is_wrong_is_said_before_ray_hears_of_it() -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        plan(batch_size=0)
    with pytest.raises(TapirProcessError, match="no such layer"):
        plan(env={"FAKE": "layer"})


def test_maps_are_tensors_and_of_nan_where_images_fail(options) -> None:
    column = Embedder(options("map"))(paths(7, broken=(0, 6))).column("embedding")
    tensors = column.combine_chunks()
    assert tensors.type == pa.fixed_shape_tensor(pa.float32(), [2, 2])
    values = tensors.to_numpy_ndarray()
    assert values.shape == (7, 2, 2)
    assert np.isnan(values[[0, 6]]).all()
    assert values[3].reshape(-1).tolist() == features(b"photo-3.jpg")
