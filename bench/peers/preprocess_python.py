"""Pillow and a library's preprocessing, one thread, as fast as they go: CPU time of passes over all photos.

python preprocess_python.py PHOTOS PASSES torchvision|transformers|naflex
"""
import hashlib
import json
import os
import sys
import time

from PIL import Image
from torchvision_here import torch

torch.set_num_threads(1)
photos, passes, library = sys.argv[1], int(sys.argv[2]), sys.argv[3]
paths = [os.path.join(photos, name) for name in sorted(os.listdir(photos))]
if library == 'transformers':
    from transformers import CLIPImageProcessorPil

    processor = CLIPImageProcessorPil()
    transform = lambda image: processor(images=image, return_tensors='np')['pixel_values'][0]
elif library == 'naflex':
    from transformers import Siglip2ImageProcessorPil

    processor = Siglip2ImageProcessorPil()
    transform = lambda image: processor(images=image, return_tensors='np')['pixel_values'][0]
else:
    from torchvision import transforms

    steps = transforms.Compose([
        transforms.Resize(232),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    transform = lambda image: steps(image).contiguous().numpy()


def load(path):
    return transform(Image.open(path).convert('RGB'))


# The first pass, which is not timed, also warms up.
digests = [hashlib.sha256(load(path).tobytes()).hexdigest() for path in paths]
cpu, wall = time.process_time(), time.perf_counter()
for _ in range(passes):
    for path in paths:
        load(path)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({'images': passes * len(paths), 'loopCpuS': cpu, 'loopS': wall, 'digests': digests}))
