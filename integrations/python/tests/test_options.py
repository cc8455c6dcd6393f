"""The arguments and the command that they give."""

from __future__ import annotations

import pytest

from onnx_tapir import Arguments, EmbedOptions


def command(**given: object) -> str:
    return " ".join(EmbedOptions(**{"model": "m.onnx", "return_nodes": "avgpool", **given}).command())


def test_engines_take_the_fields_of_the_options() -> None:
    fields = EmbedOptions.__dataclass_fields__
    assert Arguments.__annotations__.keys() == fields.keys()
    assert {key: str(kind.__forward_arg__) for key, kind in Arguments.__annotations__.items()} == {
        key: field.type for key, field in fields.items()
    }


def test_the_command() -> None:
    cpu = "--device cpu --set sessions=1 --set threads=1 --set decodeThreads=1"
    assert command() == f"tapir embed - --format arrow --out - --model m.onnx --return avgpool {cpu}"
    assert command(tapir=["node", "bin.cjs"]).startswith("node bin.cjs embed - ")
    assert "--return layer4 --return avgpool " in command(return_nodes=["layer4", "avgpool"])
    assert "--return layer4=map --return avgpool=vector" in command(return_nodes={"layer4": "map", "avgpool": "vector"})
    assert command(transform="ImageNet1K_V2", model_batch=16, flags=["--set", "l2Normalize=true"]).endswith(
        "--transform ImageNet1K_V2 --batch 16 --set l2Normalize=true"
    )


@pytest.mark.parametrize(
    ("num_gpus", "flag"),
    [(1, "--device cuda "), (0.5, "--device cuda "), (2, "--devices cuda:0,cuda:1 "), (0, "--device cpu ")],
)
def test_the_devices_follow_from_the_numbers(num_gpus: float, flag: str) -> None:
    assert flag in command(num_gpus=num_gpus, num_cpus=8)
    assert "--set decodeThreads=8" in command(num_gpus=num_gpus, num_cpus=8)
    assert "--devices auto" in command(num_gpus=num_gpus, devices="auto")
    # The driver may have no GPU.
    assert "--device cpu" in " ".join(EmbedOptions("m.onnx", "avgpool", num_gpus=num_gpus).command(is_check=True))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"retries": -1}, "retries must be at least 0, not -1"),
        ({"timeout_s": 0}, "timeout_s must be more than 0, not 0"),
        ({"tapir": []}, "tapir must be a command"),
        ({"return_nodes": []}, "return_nodes must name at least one node"),
    ],
)
def test_wrong_options(given: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        command(**given)
