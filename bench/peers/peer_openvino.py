"""Python's OpenVINO and Pillow: threads decode while an AsyncInferQueue runs the model, the same geometry as torchvision's.

python peer_openvino.py MODEL PHOTOS OUT BATCH THREADS NAMES [bf16|f32]

NAMES: what the model's outputs are called in OUT, with commas between them. The CPU plugin chooses streams for throughput.
"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import openvino
from pillow_features import list_photos, load, save

MODEL, PHOTOS, OUT, BATCH, THREADS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
NAMES = sys.argv[6].split(',')
PRECISION = sys.argv[7] if len(sys.argv) > 7 else 'bf16'

paths = list_photos(PHOTOS)
rows = min(BATCH, len(paths))
core = openvino.Core()
model = core.read_model(MODEL)
# A fixed batch, as OpenVINO recommends; the last one is filled up.
model.reshape({model.input(0): [rows, *[d.get_length() for d in list(model.input(0).partial_shape)[1:]]]})
properties = {
    'INFERENCE_PRECISION_HINT': PRECISION,
    'PERFORMANCE_HINT': 'THROUGHPUT',
    'INFERENCE_NUM_THREADS': THREADS,
}
compiled = core.compile_model(model, 'CPU', properties)
queue = openvino.AsyncInferQueue(compiled, compiled.get_property('OPTIMAL_NUMBER_OF_INFER_REQUESTS'))
batches = {}


def keep(request, run):
    start, _ = run
    batches[start] = [request.get_output_tensor(i).data[: len(paths) - start].copy() for i in range(len(NAMES))]


queue.set_callback(keep)


def decode(start):
    batch = numpy.zeros((rows, *compiled.input(0).get_shape()[1:]), numpy.float32)
    for row, path in enumerate(paths[start:start + rows]):
        batch[row] = load(path)
    return batch


# Pillow and numpy let go of the interpreter's lock, so that threads do. They run a few batches ahead of the model.
starts = range(0, len(paths), rows)
with ThreadPoolExecutor(THREADS) as pool:
    ahead = [pool.submit(decode, start) for start in starts[: 2 * THREADS]]
    for i, start in enumerate(starts):
        batch = ahead.pop(0).result()
        if i + 2 * THREADS < len(starts):
            ahead.append(pool.submit(decode, starts[i + 2 * THREADS]))
        # The request reads the array where it is; the callback's argument keeps it alive.
        queue.start_async({0: batch}, (start, batch), share_inputs=True)
    queue.wait_all()
for i, name in enumerate(NAMES):
    save(OUT, name, [batches[start][i] for start in starts])
print(json.dumps({'n': len(paths)}))
