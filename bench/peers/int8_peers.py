"""Quantises one float32 model as NNCF and ONNX Runtime do, on given pixels, and says how near the vectors of other pixels stay. Runs a QDQ file of
onnx-tapir in Python's engines as well.

pip install onnx onnxruntime nncf openvino numpy
python int8_peers.py MODEL.onnx TAPIR.int8.onnx CALIBRATION.npy HELD_BACK.npy [--transformer]

Prints a line of JSON for each: name, least and mean cosine to float32, share of ten neighbours kept, CPU ms per image on one thread, file size.
"""
import json
import os
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort

MODEL, TAPIR, CALIBRATION, HELD_BACK = sys.argv[1:5]
IS_TRANSFORMER = '--transformer' in sys.argv
NEIGHBOURS = 10
ROUNDS = 5
calibration, held_back = np.load(CALIBRATION), np.load(HELD_BACK)
scratch = tempfile.mkdtemp()


def in_onnxruntime(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    name = session.get_inputs()[0].name
    return lambda pixels: session.run(None, {name: pixels})[0]


def in_openvino(model, precision='f32'):
    import openvino as ov

    core = ov.Core()
    settings = {'INFERENCE_PRECISION_HINT': precision, 'INFERENCE_NUM_THREADS': 1, 'NUM_STREAMS': 1}
    compiled = core.compile_model(model, 'CPU', settings)
    return lambda pixels: compiled([pixels])[0]


def vectors(run, pixels):
    rows = [run(pixels[at : at + 4]) for at in range(0, len(pixels), 4)]
    return np.concatenate(rows).reshape(len(pixels), -1).astype(np.float64)


def cosines(a, b):
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def neighbours(of):
    unit = of / np.linalg.norm(of, axis=1, keepdims=True)
    near = unit @ unit.T
    np.fill_diagonal(near, -2)
    return np.argsort(-near, axis=1)[:, :NEIGHBOURS]


def say(name, run, exact, size=None):
    found = vectors(run, held_back)
    kept = [len(set(a) & set(b)) for a, b in zip(neighbours(exact), neighbours(found))]
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        run(held_back[:4])
        taken.append((time.process_time() - start) * 1000 / 4)
    near = cosines(exact, found)
    facts = {
        'name': name,
        'least': float(near.min()),
        'mean': float(near.mean()),
        'neighbours': float(np.mean(kept) / NEIGHBOURS),
        'cpuMs': float(np.median(taken[1:])),
        'bytes': size,
    }
    print(json.dumps(facts), flush=True)
    return found


exact_run = in_onnxruntime(MODEL)
exact = vectors(exact_run, held_back)
say('float32, ONNX Runtime', exact_run, exact, os.path.getsize(MODEL))
for name, precision in (('float32, OpenVINO', 'f32'), ('bfloat16, OpenVINO', 'bf16')):
    say(name, in_openvino(MODEL, precision), exact)
if os.path.exists(TAPIR):
    size = os.path.getsize(TAPIR)
    ours = say('onnx-tapir, ONNX Runtime', in_onnxruntime(TAPIR), exact, size)
    there = say('onnx-tapir, OpenVINO', in_openvino(TAPIR), exact, size)
    say('onnx-tapir, OpenVINO, the rest in bfloat16', in_openvino(TAPIR, 'bf16'), exact, size)
    print(json.dumps({'name': 'the same file in both engines', 'least': float(cosines(ours, there).min())}), flush=True)
    np.save(os.path.join(os.path.dirname(HELD_BACK), 'python-onnxruntime.npy'), ours.astype(np.float32))
    np.save(os.path.join(os.path.dirname(HELD_BACK), 'python-openvino.npy'), there.astype(np.float32))


def with_nncf(preset):
    import nncf
    import openvino as ov

    kind = {'model_type': nncf.ModelType.TRANSFORMER} if IS_TRANSFORMER else {}
    model = ov.Core().read_model(MODEL)
    data = nncf.Dataset([calibration[at : at + 1] for at in range(len(calibration))])
    return nncf.quantize(model, data, preset=preset, subset_size=len(calibration), **kind)


def with_onnxruntime(method):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            name = ort.InferenceSession(MODEL, providers=['CPUExecutionProvider']).get_inputs()[0].name
            self.rows = iter([{name: calibration[at : at + 1]} for at in range(len(calibration))])

        def get_next(self):
            return next(self.rows, None)

    prepared, out = (os.path.join(scratch, name) for name in ('prepared.onnx', f'{method}.onnx'))
    quant_pre_process(MODEL, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared,
        out,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    return out


for preset in ('PERFORMANCE', 'MIXED'):
    try:
        import nncf

        say(f'NNCF {preset.lower()}, OpenVINO', in_openvino(with_nncf(nncf.QuantizationPreset[preset])), exact)
    except Exception as error:
        print(json.dumps({'name': f'NNCF {preset.lower()}', 'error': str(error)[:200]}), flush=True)
for method in ('MinMax', 'Percentile', 'Entropy'):
    try:
        path = with_onnxruntime(method)
        say(f'onnxruntime.quantization {method}, ONNX Runtime', in_onnxruntime(path), exact, os.path.getsize(path))
        say(f'onnxruntime.quantization {method}, OpenVINO', in_openvino(path), exact, os.path.getsize(path))
    except Exception as error:
        print(json.dumps({'name': f'onnxruntime.quantization {method}', 'error': str(error)[:200]}), flush=True)
