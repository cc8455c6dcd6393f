"""Names in files that quantizers, converters and optimisers rewrote, by value, for npm run conformance -- names.

    python conformance/names.py make OUT [NETWORK...]    files of both exporters through all tools at hand, and what torch's hooks see
    python conformance/names.py judge OUT                table.json, of the cuts that names.ts made

Needs torch, torchvision, onnx, onnxscript, onnxruntime; tools that are not installed are left out (onnxconverter-common, onnxslim, onnxsim,
nncf). Weights are random, with statistics of norms that show whether they were folded. Nothing is downloaded.
"""
import contextlib
import copy
import io
import json
import logging
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as zoo
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

warnings.filterwarnings('ignore')
logging.disable(logging.WARNING)
onnxruntime.set_default_logger_severity(4)
torch.set_num_threads(2)


class Unit(nn.Module):
    """An inverted residual with names of its own, and one activation that is called twice."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.proj_in, self.n_in = nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.dw, self.n_dw = nn.Conv2d(outputs, outputs, 3, stride, 1, groups=outputs, bias=False), nn.BatchNorm2d(outputs)
        changes = inputs != outputs or stride > 1
        self.shortcut = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)) if changes else nn.Identity()
        )
        self.nonlin = nn.ReLU6()

    def forward(self, x):
        return self.nonlin(self.n_dw(self.dw(self.nonlin(self.n_in(self.proj_in(x))))) + self.shortcut(x))


class Odd(nn.Module):
    """Unusual names, lists of modules with code between them, activations that are no modules, a gate."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU())
        self.stages = nn.ModuleList(
            [nn.Sequential(Unit(16, 16), Unit(16, 24, 2)), nn.Sequential(Unit(24, 24), Unit(24, 32, 2))]
        )
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 8, 1), nn.ReLU(), nn.Conv2d(8, 32, 1), nn.Sigmoid())
        self.mix = nn.ModuleList([nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 1, 1)])
        self.drop, self.emb, self.cls = nn.Dropout(), nn.Linear(32, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        x = x * self.gate(x)
        for layer in self.mix:
            x = F.relu(layer(x)) + x
        return self.cls(F.gelu(self.emb(self.drop(x.mean((2, 3))))))


def convnext():
    network = ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, 64, 2), CNBlockConfig(64, None, 1)], num_classes=10)
    for module in network.modules():
        if hasattr(module, 'layer_scale'):
            module.layer_scale.data.uniform_(0.5, 1.5)
    return network


NETWORKS = {
    'resnet18': lambda: zoo.resnet18(num_classes=10),
    'mobilenet_v2': lambda: zoo.mobilenet_v2(width_mult=0.35, num_classes=10),
    'mobilenet_v3_small': lambda: zoo.mobilenet_v3_small(width_mult=0.5, num_classes=10),
    'efficientnet_b0': lambda: zoo.efficientnet_b0(num_classes=10),
    'vit': lambda: zoo.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10),
    'convnext': convnext,
    'odd': Odd,
}
SIDES = {'vit': 32, 'odd': 32}


def create(name):
    """The network, its input, and weights that keep activations of a size that 8 bits can hold through all layers."""
    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
            module.weight.data.uniform_(0.6, 1.4)
            module.bias.data.normal_(0, 0.3)
    x = torch.randn(2, 3, SIDES.get(name, 64), SIDES.get(name, 64))

    def scale(module, _, y):
        spread = y.std()
        if torch.isfinite(spread) and spread > 1e-6 and not 0.3 < spread < 3:
            for parameter in (module.weight, module.bias):
                if parameter is not None:
                    parameter.data /= spread
            return y / spread

    layers = [module for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear, nn.BatchNorm2d))]
    hooks = [module.register_forward_hook(scale) for module in layers]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return network, x


def values_of(network, x):
    """The value of the first call of a layer, and of the last one of other modules."""
    found = {}

    def keep(name, module, value):
        value = value[0] if isinstance(value, (tuple, list)) else value
        if torch.is_tensor(value) and not (name in found and not list(module.children())):
            found[name] = value.numpy().copy()

    hooks = [
        module.register_forward_hook(lambda module, _, value, name=name: keep(name, module, value))
        for name, module in network.named_modules()
        if name
    ]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return found


class Rows(CalibrationDataReader):
    def __init__(self, x):
        self.rows = iter([{'x': x.numpy()}])

    def get_next(self):
        return next(self.rows, None)


def static(**options):
    return lambda source, target, x: quantize_static(source, target, Rows(x), **options)


def dynamic(**options):
    return lambda source, target, x: quantize_dynamic(source, target, **options)


def preprocess(source, target, x):
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(source, target, skip_symbolic_shape=True)


def level(name):
    def optimise(source, target, x):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f'ORT_ENABLE_{name}')
        options.optimized_model_filepath = target
        onnxruntime.InferenceSession(source, options, providers=['CPUExecutionProvider'])

    return optimise


def halves(**options):
    def convert(source, target, x):
        from onnxconverter_common import float16

        model = onnx.load(source)
        if options.get('node_block_list') == 'first':
            first = [next((node.name for node in model.graph.node if node.op_type in kinds), '') for kinds in (['Conv'], ['Gemm'])]
            onnx.save(float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=first), target)
        else:
            onnx.save(float16.convert_float_to_float16(model, keep_io_types=True, **options), target)

    return convert


def nbits(source, target, x):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    quantizer.model.save_model_to_file(target)


def slim(source, target, x):
    import onnxslim

    onnxslim.slim(source, target)


def simplify(source, target, x):
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def nncf(source, target, x):
    import nncf as tool

    tool.set_log_level(logging.ERROR)
    onnx.save(tool.quantize(onnx.load(source), tool.Dataset([{'x': x.numpy()}])), target)


def then(*steps):
    def run(source, target, x):
        for i, step in enumerate(steps):
            step(source if i == 0 else f'{target}.{i}', target if i == len(steps) - 1 else f'{target}.{i + 1}', x)

    return run


INT8, UINT8 = QuantType.QInt8, QuantType.QUInt8
KERNELS = static(quant_format=QuantFormat.QOperator, activation_type=UINT8, weight_type=UINT8)
SYMMETRIC = {'activation_type': INT8, 'weight_type': INT8, 'extra_options': {'ActivationSymmetric': True}}
KEPT = {'QDQKeepRemovableActivations': True, 'AddQDQPairToWeight': True, 'DedicatedQDQPair': True}
WIDE = {'activation_type': QuantType.QUInt16, 'weight_type': INT8, 'extra_options': {'UseQDQContribOps': True}}
TOOLS = {
    'float': lambda source, target, x: onnx.save(onnx.load(source), target),
    'dyn': dynamic(),
    'dyn_i8': dynamic(weight_type=INT8, per_channel=True),
    'predyn': then(preprocess, dynamic()),
    'qdq': static(),
    'qdq_u8pc': static(activation_type=UINT8, weight_type=INT8, per_channel=True),
    'qdq_i8sym': static(**SYMMETRIC),
    'qdq_keep': static(extra_options=KEPT),
    'qdq_conv': static(op_types_to_quantize=['Conv']),
    'qdq16': static(**WIDE),
    'preqdq': then(preprocess, static()),
    'qop': KERNELS,
    'qop_i8pc': static(quant_format=QuantFormat.QOperator, activation_type=INT8, weight_type=INT8, per_channel=True),
    'preqop': then(preprocess, static(quant_format=QuantFormat.QOperator)),
    'f16': halves(),
    'f16_block': halves(op_block_list=['Conv', 'HardSwish', 'LayerNormalization', 'Relu']),
    'f16_node': halves(node_block_list='first'),
    'nbits': nbits,
    'slim': slim,
    'sim': simplify,
    'basic': level('BASIC'),
    'extended': level('EXTENDED'),
    'all': level('ALL'),
    'slim_dyn': then(slim, dynamic()),
    'slim_qdq': then(slim, static()),
    'dyn_slim': then(dynamic(), slim),
    'qdq_slim': then(static(), slim),
    'dyn_basic': then(dynamic(), level('BASIC')),
    'dyn_extended': then(dynamic(), level('EXTENDED')),
    'qdq_basic': then(static(), level('BASIC')),
    'qdq_extended': then(static(), level('EXTENDED')),
    'qdq_all': then(static(), level('ALL')),
    'nncf': nncf,
}


def make(out, asked):
    out.mkdir(parents=True, exist_ok=True)
    for name in asked or NETWORKS:
        network, x = create(name)
        np.savez_compressed(out / f'{name}.npz', **{'': x.numpy(), **values_of(network, x)})
        for exporter in ('ts', 'dynamo'):
            source = str(out / f'{name}.{exporter}.source')
            options = {'dynamo': True, 'external_data': False} if exporter == 'dynamo' else {'dynamo': False, 'opset_version': 17}
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                torch.onnx.export(copy.deepcopy(network), (x,), source, input_names=['x'], output_names=['y'], **options)
            model = onnx.load(source)
            del model.graph.value_info[:]
            onnx.save(model, source)
            for tool, rewrite in TOOLS.items():
                try:
                    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                        rewrite(source, str(out / f'{name}.{exporter}.{tool}.onnx'), x)
                except Exception as error:
                    print(f'{name}.{exporter}.{tool}: not made, {type(error).__name__} {str(error)[:80]}', file=sys.stderr)
    files = sorted(path.name for path in out.glob('*.onnx'))
    names = {path.stem: [name for name in np.load(path).files if name] for path in out.glob('*.npz')}
    (out / 'jobs.json').write_text(json.dumps([{'file': file, 'names': names[file.split('.')[0]]} for file in files]))


def far(a, b):
    return float(np.linalg.norm(a - b) / max(1e-9, np.linalg.norm(b)))


def is_right(value, name, modules):
    """Near to torch's value, and not nearer to that of another module. 8 bits through many layers leave a distance."""
    wanted = modules[name].astype(float)
    if value.dtype.kind not in 'f' or value.shape != wanted.shape:
        return False
    value = value.astype(float)
    distance = far(value, wanted)
    others = [other.astype(float) for key, other in modules.items() if key not in ('', name) and other.shape == wanted.shape]
    nearest = min((far(value, other) for other in others if far(other, wanted) > 0.02), default=9)
    cosine = float((value * wanted).sum() / max(1e-12, np.linalg.norm(value) * np.linalg.norm(wanted)))
    return distance < 0.01 or (nearest > 0.6 * distance and distance < 0.5 and cosine > 0.9)


def judge(out):
    rows = {}
    modules = {path.stem: dict(np.load(path)) for path in out.glob('*.npz')}
    for job in json.loads((out / 'jobs.json').read_text()):
        network, exporter, tool = job['file'][: -len('.onnx')].split('.')
        found = json.loads((out / f"{job['file']}.json").read_text())
        cut, values = out / f"{job['file']}.cut", {}
        if cut.exists():
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            try:
                session = onnxruntime.InferenceSession(str(cut), options, providers=['CPUExecutionProvider'])
            except Exception as error:
                print(f"{job['file']}: onnxruntime refuses it, {str(error)[:80]}", file=sys.stderr)
                continue
            feeds = {entry.name: modules[network][''].astype('f2' if '16' in entry.type else 'f4') for entry in session.get_inputs()}
            keys = [entry.name for entry in session.get_outputs()]
            values = dict(zip(keys, session.run(keys, feeds)))
        row = rows.setdefault(f'{tool} {exporter}', {'tool': tool, 'exporter': exporter, 'right': 0, 'wrong': [], 'refused': {}})
        for name in job['names']:
            answer = found[name]
            if 'code' in answer:
                row['refused'][answer['code']] = row['refused'].get(answer['code'], 0) + 1
            elif is_right(values[answer['key']], name, modules[network]):
                row['right'] += 1
            else:
                row['wrong'].append(f'{network}: {name}')
    (out / 'table.json').write_text(json.dumps(sorted(rows.values(), key=lambda row: (list(TOOLS).index(row['tool']), row['exporter']))))


if __name__ == '__main__':
    folder = Path(sys.argv[2])
    if sys.argv[1] == 'make':
        make(folder, sys.argv[3:])
    else:
        judge(folder)
