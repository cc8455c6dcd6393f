"""Ranks of tapir against ranks of torch's DistributedDataParallel (gloo, CPU): losses of 30 steps and final weights. A ResNet of random weights
is chaotic: rounding grows over the steps until it decides. So there, after ten steps, tapir may be no farther from torch's float64 than 1.5
times what torch's float32 is. Needs torch, torchvision, onnx and a built tapir; see README.md.

    python test/python/ddp.py [RANKS ...]
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import VisionTransformer, resnet18

HERE = Path(__file__).resolve().parent
STEPS, EARLY, ROWS, LAST_ROWS, CLASSES = 30, 10, 6, 5, 5
#: How much farther from torch's float64 than torch's own float32.
FARTHER = 1.5


def mlp():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))


def vit():
    return VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=CLASSES)


MODELS = {"resnet18": lambda: resnet18(num_classes=CLASSES), "vit": vit, "mlp": mlp}
SHAPES = {"resnet18": (3, 48, 48), "vit": (3, 32, 32), "mlp": (6,)}
SGD = {"kind": "sgd", "lr": 1e-5, "momentum": 0.9}
CASES = [
    {"name": "ResNet-18, frozen, SGD", "model": "resnet18", "batchNorm": "frozen", "optimizer": SGD},
    {"name": "ResNet-18, batch, SGD", "model": "resnet18", "batchNorm": "batch", "optimizer": SGD},
    {"name": "ResNet-18, synced, SGD", "model": "resnet18", "batchNorm": "synced", "optimizer": SGD},
    {"name": "ViT, Adam", "model": "vit", "batchNorm": "frozen", "optimizer": {"kind": "adam", "lr": 1e-4}},
    {"name": "ViT, SGD", "model": "vit", "batchNorm": "frozen", "optimizer": {**SGD, "lr": 0.01}},
    {"name": "MLP, RMSprop, MSE sum", "model": "mlp", "batchNorm": "frozen", "optimizer": {"kind": "rmsprop", "lr": 1e-3}},
]


def rows_of(step):
    return LAST_ROWS if step % 5 == 4 else ROWS


def write_data(folder):
    for name in MODELS:
        torch.manual_seed(1)
        model = MODELS[name]().eval()
        if name == "vit":  # torchvision's begins with a head of zeros
            nn.init.normal_(model.heads.head.weight, std=0.1)
        if name == "resnet18":  # statistics of its rows, as a trained network has them: with others, numbers explode
            norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
            for norm in norms:
                norm.momentum = None
            with torch.no_grad():
                model.train()(torch.randn(32, *SHAPES[name]))
            for norm in norms:
                norm.momentum = 0.1
            model.eval()
        torch.save(model.state_dict(), folder / f"{name}.pth")
        example = torch.zeros(2, *SHAPES[name])
        torch.onnx.export(
            model, (example,), folder / f"{name}.onnx", dynamo=False, do_constant_folding=False, input_names=["x"],
            training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes={"x": {0: "n"}}, opset_version=17,
        )
        generator = np.random.default_rng(2)
        generator.standard_normal((STEPS, ROWS, *SHAPES[name]), dtype=np.float32).tofile(folder / f"{name}.inputs")
        if name == "mlp":
            generator.standard_normal((STEPS, ROWS, 3), dtype=np.float32).tofile(folder / f"{name}.targets")
        else:
            generator.integers(0, CLASSES, (STEPS, ROWS), dtype=np.int32).tofile(folder / f"{name}.targets")
    plan = {"cases": CASES, "steps": STEPS, "early": EARLY, "rows": [rows_of(s) for s in range(STEPS)], "most": ROWS, "shapes": SHAPES}
    (folder / "cases.json").write_text(json.dumps(plan))


def is_chaotic(case):
    return case["model"] == "resnet18"


def train_torch(folder, case, rank, size, dtype=torch.float32):
    """The reference: losses, and the weights after all steps and after the early ones. With one process, the norms take the statistics of the
    whole batch: what SyncBatchNorm computes.
    """
    name = case["model"]
    model = MODELS[name]()
    model.load_state_dict(torch.load(folder / f"{name}.pth"))
    model.to(dtype)
    model.train(case["batchNorm"] != "frozen")
    parallel = DistributedDataParallel(model) if size > 1 else model
    kind, options = case["optimizer"]["kind"], {k: v for k, v in case["optimizer"].items() if k != "kind"}
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[kind](model.parameters(), **options)
    inputs = torch.from_numpy(np.fromfile(folder / f"{name}.inputs", np.float32).reshape(STEPS, ROWS, *SHAPES[name])).to(dtype)
    is_mse = name == "mlp"
    targets = np.fromfile(folder / f"{name}.targets", np.float32 if is_mse else np.int32).reshape(STEPS, ROWS, *((3,) if is_mse else ()))
    targets = torch.from_numpy(targets if is_mse else targets.astype(np.int64))
    compute = nn.MSELoss(reduction="sum") if is_mse else nn.CrossEntropyLoss(reduction="sum")
    losses, early = [], {}
    for step in range(STEPS):
        rows = rows_of(step)
        own = slice(rank, rows, size)
        optimizer.zero_grad()
        # DDP averages over ranks: this makes it the mean over rows, or the sum, whatever the shares.
        loss = compute(parallel(inputs[step, own]), targets[step, own]) / (1 if is_mse else rows)
        (loss * size).backward()
        optimizer.step()
        total = loss.detach().double()
        if size > 1:
            dist.all_reduce(total)
        losses.append(total.item())
        if step + 1 == EARLY:
            early = copy_weights(model)
    return losses, copy_weights(model), early


def copy_weights(model):
    return {key: value.numpy().copy() for key, value in model.state_dict().items() if "num_batches" not in key}


def dtypes_of(case):
    return [torch.float32, torch.float64] if is_chaotic(case) else [torch.float32]


def path_of(folder, size, i, dtype):
    return folder / f"{str(dtype)}-{size}-{i}.pickle"


def read_torch(folder, case, size, i, dtype=torch.float32):
    """What torch has trained in that type: see :func:`train_torch`."""
    if case["batchNorm"] == "synced":
        return train_torch(folder, case, 0, 1, dtype)
    return pickle.loads(path_of(folder, size, i, dtype).read_bytes())


def apart(state, weights, ignores_key_bias=False):
    """The largest difference of each tensor, over the largest weight."""
    largest = max(np.abs(value).max() for value in weights.values())
    found = {}
    for key in weights.keys() & state.keys():
        off = np.abs(state[key] - weights[key])
        if ignores_key_bias and key.endswith("in_proj_bias"):
            third = len(off) // 3
            off[third : 2 * third] = 0
        found[key] = off.max() / largest
    return found


def farthest(state, weights):
    return max(apart(state, weights).values())


def torch_rank(folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for i, case in enumerate(CASES):
        if case["batchNorm"] == "synced":
            continue
        for dtype in dtypes_of(case):
            trained = train_torch(folder, case, rank, size, dtype)
            if rank == 0:
                path_of(folder, size, i, dtype).write_bytes(pickle.dumps(trained))
    dist.destroy_process_group()


def read_checkpoint(folder):
    [file] = folder.glob("*.safetensors")
    raw = file.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    return {
        key: np.frombuffer(raw[end + at["data_offsets"][0] : end + at["data_offsets"][1]], np.float32).reshape(at["shape"])
        for key, at in header.items()
        if key != "__metadata__"
    }


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--torch":
        return torch_rank(Path(sys.argv[2]))
    counts = [int(word) for word in sys.argv[1:]] or [2, 3]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "integrations/python"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        torch.set_num_threads(1)
        for size in counts:
            subprocess.run([*torchrun, str(size), __file__, "--torch", name], check=True, env=env)
            subprocess.run([*torchrun, str(size), "-m", "onnx_tapir.run", str(HERE / "ddp_rank.mjs"), name], check=True, env=env)
            for i, case in enumerate(CASES):
                losses, weights, early = read_torch(folder, case, size, i)
                ours = json.loads((folder / f"tapir-{size}-{i}.json").read_text())
                state = read_checkpoint(folder / f"tapir-{size}-{i}")
                # The gradient of an attention's key bias is zero, and Adam makes steps of its rounding.
                off = apart(state, weights, ignores_key_bias=case["optimizer"]["kind"] == "adam")
                worst = max(off, key=off.__getitem__)
                lost = np.abs(np.array(ours) / losses - 1)
                line = (
                    f"{size} ranks, {case['name']}: losses {lost[0]:.1e} at first, {lost.max():.1e} at most, "
                    f"{len(off)} tensors {off[worst]:.1e} ({worst})"
                )
                bad += lost[0] > 2e-6
                if is_chaotic(case):
                    _, exact, early_exact = read_torch(folder, case, size, i, torch.float64)
                    first = read_checkpoint(folder / f"tapir-{size}-{i}-early")
                    bad += off[worst] > 4e-4
                    bad += farthest(first, early_exact) > FARTHER * farthest(early, early_exact)
                    line += "; from torch's float64, tapir and torch's float32"
                    for steps, own, theirs, true in ((EARLY, first, early, early_exact), (STEPS, state, weights, exact)):
                        line += f", {steps} steps: {farthest(own, true):.1e}, {farthest(theirs, true):.1e}"
                else:
                    bad += off[worst] > 2e-5 or lost.max() > 2e-5
                print(line, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
