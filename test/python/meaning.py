"""Does it mean the same? Nearest-neighbour accuracy of a trained model on labelled pictures, by `tapir embed` with the model's own transform and by the Python
pipeline (timm's transform and onnxruntime), and by tapir's ImageNet preset for comparison.

    python test/python/meaning.py MODEL.onnx NODE PICTURES

MODEL: EfficientNet-Lite0 with trained weights, as real_models.py exports it (lite0-torchscript-unfolded.onnx). PICTURES: folders of PNGs whose parent folder is the
label, such as Debian's tuxpaint-stamps-default in /usr/share/tuxpaint/stamps. Needs numpy, onnxruntime, timm, pillow and a built tapir.
"""
import json, shutil, subprocess, sys, tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench' / 'peers'))
from torchvision_here import torch  # noqa: E402,F401
import numpy as np, onnxruntime, timm  # noqa: E402
from PIL import Image  # noqa: E402

model, node, pictures = sys.argv[1:4]
# As the package's authors trained it: tf_efficientnet_lite0 in timm.
CONFIG = dict(input_size=[3, 224, 224], crop_pct=0.875, interpolation='bicubic', mean=[0.5] * 3, std=[0.5] * 3)
work = Path(tempfile.mkdtemp(prefix='tapir-meaning-'))
shutil.copy(model, work / 'model.onnx')
(work / 'config.json').write_text(json.dumps(dict(architecture='tf_efficientnet_lite0', pretrained_cfg=CONFIG)))

files = sorted(Path(pictures).rglob('*.png'))
labels = [path.parent.name for path in files]
known = {label for label, count in Counter(labels).items() if count >= 5}
files, labels = zip(*[(path, label) for path, label in zip(files, labels) if label in known])
labels = np.array(labels)


def tapir(out, *flags):
    command = ['node', str(ROOT / 'dist/lib/bin.cjs'), 'embed', '-', '--model', str(work / 'model.onnx'), '--return', f'{node}=v', '--pool', 'avg', '--out', '-', '--format', 'jsonl', *flags]
    done = subprocess.run(command, input='\n'.join(map(str, files)), capture_output=True, text=True)
    if done.returncode: sys.exit(done.stderr)
    rows = {row['path']: row['v'] for row in map(json.loads, done.stdout.splitlines())}
    return np.float32([rows[str(path)] for path in files])


def python():
    subprocess.run(['node', str(ROOT / 'dist/lib/bin.cjs'), 'extract', model, '--return', f'{node}=v', '--pool', 'avg', '-o', str(work / 'cut.onnx')], check=True, capture_output=True)
    session = onnxruntime.InferenceSession(str(work / 'cut.onnx'), providers=['CPUExecutionProvider'])
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=CONFIG))
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: transform(Image.open(path).convert('RGB'))[None].numpy()})[0].reshape(1, -1) for path in files])


def accuracy(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = unit @ unit.T
    np.fill_diagonal(near, -2)
    return float((labels[near.argmax(1)] == labels).mean())


ours, theirs, preset = tapir('auto'), python(), tapir('preset', '--transform', 'ImageNet1K_V1')
print(f'{len(files)} pictures of {len(known)} classes; nearest-neighbour accuracy')
print(f'  tapir, the model\'s own transform  {accuracy(ours):.4f}')
print(f'  Python, timm and onnxruntime      {accuracy(theirs):.4f}   largest difference of a vector {np.abs(ours - theirs).max():.3g} (largest value {np.abs(theirs).max():.3g})')
print(f'  tapir, --transform ImageNet1K_V1  {accuracy(preset):.4f}')
