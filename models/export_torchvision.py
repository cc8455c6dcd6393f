"""Exports a torchvision or timm model to ONNX, with names that onnx-tapir resolves.

    python models/export_torchvision.py resnet50 --weights DEFAULT
    python models/export_torchvision.py timm/vit_base_patch16_224 --weights DEFAULT --out vit.onnx
    python models/export_torchvision.py resnet50 --weights DEFAULT --keep-batchnorm

Without --weights the model is untrained. The batch is dynamic. Beside the model it writes <out>.names.json: which
tensor of the file holds the value of which torchvision node (docs/names-sidecar.md).

Needs torch, torchvision, onnx (timm for names that begin with timm/, onnxscript for --exporter dynamo, onnxruntime
unless --no-names); downloads weights through torchvision and timm.
"""

import argparse
import ast
import copy
import hashlib
import json
import os
import sys
import tempfile

import torch

# Two values are the same when they differ nowhere by more than this share of the largest magnitude.
TOLERANCE = 1e-4
# So many tensors are held at a time while values are compared.
CHUNK = 64


def load(name, weights, size):
    """The model in eval mode, its input size, and its preprocessing in words."""
    if name.startswith("timm/"):
        import timm

        model = timm.create_model(name[len("timm/") :], pretrained=weights is not None)
        config = timm.data.resolve_data_config({}, model=model)
        return model.eval(), size or config["input_size"][-1], config
    import torchvision

    chosen = torchvision.models.get_model_weights(name)[weights] if weights else None
    model = torchvision.models.get_model(name, weights=chosen)
    transform = chosen.transforms() if chosen else None
    side = transform.crop_size[0] if transform is not None and hasattr(transform, "crop_size") else 224
    return model.eval(), size or side, transform


# Export


def export_torchscript(model, example, out, opset, keep_batchnorm):
    """The TorchScript exporter: module paths become node names (/layer4/layer4.2/relu_2/Relu)."""
    options = {}
    if keep_batchnorm:
        # Constant folding is what merges BatchNorm into convolutions; PRESERVE keeps the model's eval mode.
        options = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    if "dynamo" in torch.onnx.export.__code__.co_varnames:
        options["dynamo"] = False
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    torch.onnx.export(
        model,
        (example,),
        out,
        opset_version=opset,
        input_names=["input"],
        output_names=["output"],
        dynamic_axes=axes,
        **options,
    )


def export_dynamo(model, example, out, opset, keep_batchnorm):
    """The dynamo exporter: module paths become node metadata (pkg.torch.onnx.name_scopes)."""
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        model,
        (example,),
        dynamo=True,
        opset_version=max(opset, 18),  # the least it writes
        dynamic_shapes=({0: batch},),
        optimize=not keep_batchnorm,
        verbose=False,
    )
    program.save(out, external_data=False)


EXPORTERS = {"torchscript": export_torchscript, "dynamo": export_dynamo}


# The values of the torch model, by name


class FxNodes:
    """The nodes of torchvision's get_graph_node_names(model)[1]."""

    def __init__(self, model):
        from torchvision.models.feature_extraction import NodePathTracer, _set_default_tracer_kwargs

        tracer = NodePathTracer(**_set_default_tracer_kwargs(None))
        graph = tracer.trace(copy.deepcopy(model).eval())
        self.module = torch.fx.GraphModule(tracer.root, graph)
        names = {node: tracer.node_to_qualname[node] for node in graph.nodes if node.op not in ("output", "get_attr")}
        self.names = {node.name: name for node, name in names.items()}
        self.next = {}  # name -> the name of the only node that reads it
        self.places = {}  # name -> paths of the modules it may stand in, and whether anything below them counts
        for node, name in names.items():
            if len(node.users) == 1:
                self.next[name] = names.get(next(iter(node.users)))
            if node.op == "call_module":
                self.places[name] = ({name, node.target}, True)
            elif node.op != "placeholder":
                self.places[name] = ({name.rpartition(".")[0]}, False)

    def visit(self, x, see):
        """Runs the model; see(name, value) gets each node's value before a later in-place operation can change it."""
        names = self.names

        class Run(torch.fx.Interpreter):
            def run_node(self, node):
                value = super().run_node(node)
                if node.name in names:
                    see(names[node.name], value)
                return value

        with torch.no_grad():
            Run(self.module).run(x.clone())


class ModuleCalls:
    """For models that FX cannot trace: the calls of modules, containers included, by module path; a repeated call is _1, _2."""

    def __init__(self, model):
        self.model = copy.deepcopy(model).eval()
        self.paths = {module: path for path, module in self.model.named_modules() if path}
        self.next = {}
        self.places = {path: ({path}, True) for path in self.paths.values()}

    def visit(self, x, see):
        """As FxNodes.visit."""
        paths = set(self.paths.values())
        calls = {}
        previous = (None, None)

        def called(module, args, value):
            nonlocal previous
            path = self.paths[module]
            calls[path] = calls.get(path, -1) + 1
            name = path if calls[path] == 0 else f"{path}_{calls[path]}"
            if name != path and name in paths:
                return  # another module has this name
            self.places.setdefault(name, self.places[path])
            if args and args[0] is previous[1]:
                self.next[previous[0]] = name
            see(name, value)
            previous = (name, value)

        hooks = [module.register_forward_hook(called) for module in self.paths]
        try:
            see("x", x)
            with torch.no_grad():
                self.model(x.clone())
        finally:
            for hook in hooks:
                hook.remove()


def trace(model, example):
    """FxNodes where the model can be traced, ModuleCalls where it cannot."""
    try:
        nodes = FxNodes(model)
        nodes.visit(example, lambda name, value: None)
        return nodes
    except Exception as error:  # tracing runs the model's own code: anything can come out of it
        print(f"not traceable ({str(error).splitlines()[0][:100]}): names are module paths")
        return ModuleCalls(model)


@torch.no_grad()
def perturbed(model):
    """A copy in which no two nodes agree by accident.

    In an untrained model a BatchNorm is the identity, a layer scale of 1e-6 hides its block, and a head or a class token is zero:
    different nodes would have equal values.
    """
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        vector = parameter.numel() == max(parameter.shape, default=1)
        if vector or parameter.min() == parameter.max():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer *= 0.75 + 0.5 * torch.rand(buffer.shape, generator=generator)
        elif name.endswith("running_mean"):
            buffer += 0.1 * torch.randn(buffer.shape, generator=generator)
    return model


# The values of the ONNX file, by tensor name


def scope(node):
    """The path of the module that a node stands in, as far as its exporter tells."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            return ast.literal_eval(entry.value)[-2]
    path, before = [], None
    for segment in node.name.split("/")[1:-1]:
        if before is not None and segment.startswith(before + "."):
            path.pop()  # the child of a Sequential repeats its parent: /layer4/layer4.2
        path.append(segment)
        before = segment
    return ".".join(path)


class OnnxValues:
    """An ONNX file in which every tensor that a node computes can be fetched."""

    def __init__(self, file):
        import onnx
        import onnxruntime

        model = onnx.load(file)
        graph = model.graph
        self.input = graph.input[0].name
        self.scopes = {self.input: None}  # tensors in execution order, with the path of the module they come from
        declared = {output.name for output in graph.output}
        for node in graph.node:
            for name in filter(None, node.output):
                self.scopes[name] = scope(node)
                if name not in declared:
                    graph.output.append(onnx.ValueInfoProto(name=name))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def fetch(self, tensors, x):
        """Pairs of name and value of those tensors that hold floating-point numbers."""
        for chunk in chunks(tensors):
            computed = [name for name in chunk if name != self.input]
            values = dict(zip(computed, self.session.run(computed, {self.input: x.numpy()}))) if computed else {}
            for name in chunk:
                value = x.numpy() if name == self.input else values[name]
                if getattr(value, "dtype", None) is not None and value.dtype.kind == "f":
                    yield name, value


def chunks(names):
    names = list(names)
    return [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]


# Which tensor holds which value


def is_float(value):
    return torch.is_tensor(value) and value.is_floating_point() and value.numel() > 0


def sketch(value):
    """Shape, largest magnitude and 256 of the numbers, at places that depend on the shape alone."""
    import numpy

    flat = value.reshape(-1)
    places = (numpy.arange(256, dtype=numpy.uint64) * 2654435761 % max(flat.size, 1)).astype(numpy.int64)
    return value.shape, float(numpy.abs(flat).max(initial=0)), flat[places] if flat.size else flat


def alike(a, b):
    """Whether two sketches are of the same value, as far as sketches tell. A value that is zero everywhere equals none."""
    import numpy

    return a[0] == b[0] and 0 < a[1] < float("inf") and bool(numpy.abs(a[2] - b[2]).max() <= TOLERANCE * a[1])


def sketches(nodes, x):
    """The sketch of every name with a floating-point tensor for a value, in execution order."""
    found = {}

    def see(name, value):
        if is_float(value):
            found[name] = sketch(value.detach().numpy())

    nodes.visit(x, see)
    return found


def match(nodes, file, inputs):
    """Sketches by name, and by name the tensors of the file that equal it on all inputs, in execution order."""
    import numpy

    by_name = sketches(nodes, inputs[0])
    by_shape = {}
    for tensor, value in file.fetch(file.scopes, inputs[0]):
        by_shape.setdefault(value.shape, []).append((tensor, sketch(value)))
    equal = {}
    for name, mine in by_name.items():
        equal[name] = [tensor for tensor, other in by_shape.get(mine[0], []) if alike(mine, other)]
    for x in inputs:
        for names in chunks(name for name in equal if equal[name]):
            values = {}

            def see(name, value):
                if name in names:
                    values[name] = value.detach().clone().numpy()

            nodes.visit(x, see)
            for tensor, value in file.fetch({tensor: None for name in names for tensor in equal[name]}, x):
                for name in names:
                    if tensor in equal[name]:
                        mine = values[name]
                        if not numpy.abs(mine - value).max() <= TOLERANCE * numpy.abs(mine).max():
                            equal[name].remove(tensor)
    return by_name, equal


def choose(name, tensors, nodes, file):
    """Of equal tensors the first whose node stands in the name's own module, else the first."""
    paths, below = nodes.places.get(name, ((), False))
    for tensor in tensors:
        place = file.scopes[tensor]
        if place is not None and (place in paths or (below and any(place.startswith(path + ".") for path in paths))):
            return tensor
    return tensors[0]


def skeleton(file):
    """What an ONNX file computes, apart from its weights and its names; and the names of its tensors, in the same order.

    The copies that exporters make of equal weights are left out.
    """
    import onnx

    graph = onnx.load(file).graph
    weights = {weight.name for weight in graph.initializer}
    tensors = {graph.input[0].name: 0}
    nodes = []
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in weights:
            continue
        reads = tuple((place, tensors[name]) for place, name in enumerate(node.input) if name in tensors)
        options = tuple(entry.SerializeToString() for entry in node.attribute if entry.type != onnx.AttributeProto.TENSOR)
        nodes.append((node.op_type, scope(node), reads, len(node.output), options))
        for name in node.output:
            tensors[name] = len(tensors)
    return nodes, list(tensors)


def find_names(model, export, out, example):
    """Which names the file has, which it has not (with the name that exists instead, or None), and how that was found."""
    inputs = [torch.randn(example.shape, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    changed = perturbed(model)
    nodes = trace(changed, example)
    with tempfile.TemporaryDirectory() as folder:
        # In the file itself, which may be untrained, different nodes can have equal values; so ask a twin with other weights.
        twin = os.path.join(folder, "twin.onnx")
        export(changed, twin)
        (here, tensors_here), (there, tensors_there) = skeleton(out), skeleton(twin)
        if here == there:
            method, doubtful = "values", set()
            file, in_out = OnnxValues(twin), dict(zip(tensors_there, tensors_here))
            by_name, equal = match(nodes, file, inputs)
        else:
            method = "values-own-weights"
            apart = sketches(nodes, inputs[0])
            nodes, file = trace(model, example), OnnxValues(out)
            in_out = {tensor: tensor for tensor in file.scopes}
            by_name, equal = match(nodes, file, inputs)
            # Equal here although they differ under other weights: then nobody knows whose value a tensor is.
            pairs = [(a, b) for a in by_name for b in by_name if a != b and alike(by_name[a], by_name[b])]
            doubtful = {a for a, b in pairs if not alike(apart[a], apart[b])}
    names, absent = {}, {}
    for name, tensors in equal.items():
        # A tensor that is no tensor of `out` is the twin's copy of a weight, and no value of a node.
        tensors = [tensor for tensor in tensors if tensor in in_out]
        if name in doubtful:
            continue
        if tensors:
            names[name] = in_out[choose(name, tensors, nodes, file)]
        else:
            absent[name] = nodes.next.get(name)
    for name, after in absent.items():
        if after not in names or by_name[after][0] != by_name[name][0]:
            absent[name] = None
    return names, absent, method


def write_names(names, absent, method, out, architecture, exporter):
    """Writes <out>.names.json."""
    import onnx

    file = onnx.load(out)
    outputs = "".join(name + "\n" for node in file.graph.node for name in node.output)
    made_by = {"torch": torch.__version__}
    for library in ("torchvision", "timm"):
        if library in sys.modules:
            made_by[library] = sys.modules[library].__version__
    made_by["exporter"] = exporter
    made_by["opset"] = next(entry.version for entry in file.opset_import if entry.domain in ("", "ai.onnx"))
    sidecar = {
        "format": "onnx-tapir-names",
        "version": 1,
        "model": {
            "architecture": architecture,
            "nodes": len(file.graph.node),
            "fingerprint": hashlib.sha256(outputs.encode()).hexdigest(),
        },
        "made_by": made_by,
        "method": method,
        "names": names,
        "absent": absent,
    }
    with open(out + ".names.json", "w", encoding="utf-8") as target:
        json.dump(sidecar, target, indent=2, ensure_ascii=False)
        target.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="torchvision's name, or timm/ and timm's")
    parser.add_argument("--weights", help="torchvision's weights (DEFAULT, IMAGENET1K_V1, ...); anything for timm's pretrained ones")
    parser.add_argument("--out", help="file to write (default: the model's name with .onnx)")
    parser.add_argument("--size", type=int, help="height and width of the input (default: what the weights state, else 224)")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--exporter", choices=list(EXPORTERS), default="torchscript")
    parser.add_argument("--keep-batchnorm", action="store_true", help="do not fold BatchNorm, so that conv names keep their values")
    parser.add_argument("--no-names", action="store_true", help="do not write <out>.names.json")
    args = parser.parse_args()

    out = args.out or args.model.split("/")[-1] + ".onnx"
    model, size, preprocessing = load(args.model, args.weights, args.size)
    example = torch.randn(2, 3, size, size)

    def export(model, file):
        EXPORTERS[args.exporter](model, example, file, args.opset, args.keep_batchnorm)

    # Not under no_grad: there, attention takes a fast path that has no ONNX operators.
    export(model, out)
    print(f"written: {out}, input [batch, 3, {size}, {size}]")
    if not args.no_names:
        names, absent, method = find_names(model, export, out, example)
        write_names(names, absent, method, out, args.model, args.exporter)
        print(f"written: {out}.names.json, {len(names)} names, {len(absent)} values are not in the file")
    print(f"preprocessing of these weights: {preprocessing}")


if __name__ == "__main__":
    sys.exit(main())
