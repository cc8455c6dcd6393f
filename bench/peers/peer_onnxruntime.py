"""Python's onnxruntime and Pillow: a loop over batches, the same geometry as torchvision's.

python peer_onnxruntime.py MODEL PHOTOS OUT BATCH THREADS NAMES

NAMES: what the model's outputs are called in OUT, with commas between them.
"""
import json
import sys

import numpy
import onnxruntime
from pillow_features import list_photos, load, save

MODEL, PHOTOS, OUT, BATCH, THREADS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
NAMES = sys.argv[6].split(',')

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = THREADS
session = onnxruntime.InferenceSession(MODEL, options, providers=['CPUExecutionProvider'])
paths = list_photos(PHOTOS)
batches = []
for start in range(0, len(paths), BATCH):
    batch = numpy.stack([load(path) for path in paths[start:start + BATCH]])
    batches.append(session.run(None, {session.get_inputs()[0].name: batch}))
for name, features in zip(NAMES, zip(*batches)):
    save(OUT, name, features)
print(json.dumps({'n': len(paths)}))
