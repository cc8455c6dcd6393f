"""Pillow and torchvision's transforms, one thread, as fast as they go: CPU time of passes over all photos.

python preprocess_torchvision.py PHOTOS PASSES
"""
import hashlib
import json
import os
import sys
import time

from PIL import Image
from torchvision_here import torch
from torchvision import transforms

torch.set_num_threads(1)
photos, passes = sys.argv[1], int(sys.argv[2])
paths = [os.path.join(photos, name) for name in sorted(os.listdir(photos))]
transform = transforms.Compose([
    transforms.Resize(232),
    transforms.CenterCrop(224),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])


def load(path):
    return transform(Image.open(path).convert('RGB'))


# The first pass, which is not timed, also warms up.
digests = [hashlib.sha256(load(path).contiguous().numpy().tobytes()).hexdigest() for path in paths]
cpu, wall = time.process_time(), time.perf_counter()
for _ in range(passes):
    for path in paths:
        load(path)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({'images': passes * len(paths), 'loopCpuS': cpu, 'loopS': wall, 'digests': digests}))
