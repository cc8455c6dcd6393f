"""Pillow and transformers' CLIP processor, one thread, as fast as they go: CPU time of passes over all photos.

python preprocess_transformers.py PHOTOS PASSES
"""
import hashlib
import json
import os
import sys
import time

from PIL import Image
from torchvision_here import torch
from transformers import CLIPImageProcessorPil

torch.set_num_threads(1)
photos, passes = sys.argv[1], int(sys.argv[2])
paths = [os.path.join(photos, name) for name in sorted(os.listdir(photos))]
processor = CLIPImageProcessorPil()


def load(path):
    return processor(images=Image.open(path).convert('RGB'), return_tensors='np')['pixel_values'][0]


# The first pass, which is not timed, also warms up.
digests = [hashlib.sha256(load(path).tobytes()).hexdigest() for path in paths]
cpu, wall = time.process_time(), time.perf_counter()
for _ in range(passes):
    for path in paths:
        load(path)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({'images': passes * len(paths), 'loopCpuS': cpu, 'loopS': wall, 'digests': digests}))
