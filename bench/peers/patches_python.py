"""Random photos, and what transformers makes of each: lines of JSON with the hashes of every tensor.

python patches_python.py FOLDER COUNT SEED CONFIGURATIONS
"""
import hashlib
import json
import os
import sys

import numpy as np
import PIL
from PIL import Image
from torchvision_here import torch

import transformers

folder, count, seed, configurations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
torch.set_num_threads(1)
random = np.random.default_rng(seed)
os.makedirs(folder, exist_ok=True)


def make_photo(path):
    """Smooth colours with noise; sides from 1 to 1500, at most 150 to 1."""
    long = int(np.exp(random.uniform(0, np.log(1500)))) + 1
    short = max(1, -(-long // 150), int(long / np.exp(random.uniform(0, np.log(150)) * random.integers(0, 2))))
    width, height = (long, short) if random.integers(0, 2) else (short, long)
    coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=np.int16)
    noisy = smooth + random.integers(-24, 25, smooth.shape, dtype=np.int16)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path)


def processor_of(fields, backend):
    name = fields['image_processor_type'] + ('Pil' if backend == 'pil' else '')
    return getattr(transformers, name)(**{key: value for key, value in fields.items() if key != 'image_processor_type'})


print(json.dumps({'pillow': PIL.__version__, 'transformers': transformers.__version__}), flush=True)
processors = [processor_of(one['config'], one['backend']) for one in configurations]
for index in range(count):
    path = os.path.join(folder, f'{index:04}.png')
    make_photo(path)
    photo = Image.open(path).convert('RGB')
    tensors = []
    for processor in processors:
        given = processor(images=[photo], return_tensors='np')
        tensors.append({
            name: [str(value.dtype), list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
            for name, value in given.items()
        })
    print(json.dumps({'path': path, 'size': photo.size, 'tensors': tensors}), flush=True)
