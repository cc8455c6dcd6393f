"""Python's onnxruntime and Pillow: a loop over batches, the same geometry as torchvision's.

python peer_onnxruntime.py MODEL PHOTOS OUT BATCH THREADS
"""
import json
import os
import sys

import numpy
import onnxruntime
from PIL import Image

MODEL, PHOTOS, OUT, BATCH, THREADS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
RESIZE, CROP = 232, 224
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
STD = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def load(path):
    image = Image.open(path).convert('RGB')
    width, height = image.size
    if width <= height:
        width, height = RESIZE, int(RESIZE * height / width)
    else:
        width, height = int(RESIZE * width / height), RESIZE
    image = image.resize((width, height), Image.BILINEAR)
    left, top = round((width - CROP) / 2), round((height - CROP) / 2)
    pixels = numpy.asarray(image.crop((left, top, left + CROP, top + CROP)), numpy.float32)
    return ((pixels / 255 - MEAN) / STD).transpose(2, 0, 1)


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = THREADS
session = onnxruntime.InferenceSession(MODEL, options, providers=['CPUExecutionProvider'])
paths = [os.path.join(PHOTOS, name) for name in sorted(os.listdir(PHOTOS))]
layer4, avgpool = [], []
for start in range(0, len(paths), BATCH):
    batch = numpy.stack([load(path) for path in paths[start:start + BATCH]])
    features, pooled = session.run(['last_hidden_state', 'pooler_output'], {'pixel_values': batch})
    layer4.append(features)
    avgpool.append(pooled.reshape(len(pooled), -1))
numpy.save(os.path.join(OUT, 'layer4.npy'), numpy.concatenate(layer4))
numpy.save(os.path.join(OUT, 'avgpool.npy'), numpy.concatenate(avgpool))
print(json.dumps({'n': len(paths)}))
