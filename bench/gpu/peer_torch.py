"""PyTorch on the same GPU: exports timm's networks with seeded random weights for tapir, then measures torch itself.

python peer_torch.py export FOLDER                 FOLDER/{resnet50,vit_b_16}{,-half}.onnx
python peer_torch.py measure PHOTOS NETWORK...     images/s of the model alone and of a DataLoader over the photos, as JSON lines

The loader decodes with Pillow, resizes the shorter side to 256 and crops 224, as torchvision's evaluation does.
"""
import json
import pathlib
import statistics
import sys
import time

import numpy
import timm
import torch
from PIL import Image

NETWORKS = {'resnet50': 'resnet50', 'vit_b_16': 'vit_base_patch16_224'}
BATCH = 64
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def build(name):
    torch.manual_seed(0)
    return timm.create_model(NETWORKS[name], pretrained=False, num_classes=0).eval()


def export(folder):
    for name in NETWORKS:
        for suffix, dtype in (('', torch.float32), ('-half', torch.float16)):
            model = build(name).to('cuda', dtype)
            example = torch.randn(2, 3, 224, 224, device='cuda', dtype=dtype)
            names = {'input_names': ['input'], 'output_names': ['features']}
            axes = {'input': {0: 'batch'}, 'features': {0: 'batch'}}
            file = f'{folder}/{name}{suffix}.onnx'
            torch.onnx.export(model, (example,), file, opset_version=17, dynamic_axes=axes, dynamo=False, **names)
            print(f'written: {file}')


def is_readable(path):
    try:
        with Image.open(path) as image:
            image.load()
        return True
    except OSError:
        return False


class Photos(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.paths = [path for path in sorted(pathlib.Path(folder).rglob('*.jpg')) if is_readable(path)]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert('RGB')
        scale = 256 / min(image.size)
        image = image.resize([int(side * scale) for side in image.size], Image.Resampling.BILINEAR)
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        pixels = numpy.asarray(image.crop((left, top, left + 224, top + 224)), numpy.float32) / 255
        return torch.from_numpy((pixels - numpy.float32(MEAN)) / numpy.float32(STD)).permute(2, 0, 1)


def seconds_of(step):
    torch.cuda.synchronize()
    started = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(folder, name):
    photos = Photos(folder)
    for label, dtype, tf32 in (('float32', torch.float32, False), ('tf32', torch.float32, True), ('float16', torch.float16, False)):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        model = build(name).to('cuda', dtype, memory_format=torch.channels_last)
        batch = torch.randn(BATCH, 3, 224, 224, device='cuda', dtype=dtype).contiguous(memory_format=torch.channels_last)
        loader = torch.utils.data.DataLoader(photos, BATCH, num_workers=16, pin_memory=True, persistent_workers=True)

        def embed():
            for images in loader:
                model(images.to('cuda', dtype, non_blocking=True, memory_format=torch.channels_last)).float().cpu()

        with torch.inference_mode():
            for _ in range(5):
                model(batch)
            alone = statistics.median(seconds_of(lambda: model(batch)) for _ in range(20))
            embed()
            whole = statistics.median(seconds_of(embed) for _ in range(2))
        figures = {'alone': round(BATCH / alone), 'photosToVectors': round(len(photos) / whole)}
        print(json.dumps({'peer': 'torch', 'network': name, 'precision': label, **figures}), flush=True)


if sys.argv[1] == 'export':
    export(sys.argv[2])
else:
    for network in sys.argv[3:]:
        measure(sys.argv[2], network)
