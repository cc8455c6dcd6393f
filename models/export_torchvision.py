"""Exports a torchvision or timm model to ONNX, with names that onnx-tapir resolves.

    python models/export_torchvision.py resnet50 --weights DEFAULT
    python models/export_torchvision.py timm/vit_base_patch16_224 --weights DEFAULT --out vit.onnx
    python models/export_torchvision.py resnet50 --weights DEFAULT --keep-batchnorm

Without --weights the model is untrained. Needs torch and torchvision (timm for names that begin with timm/); downloads
weights through those packages. The batch is dynamic.
"""

import argparse
import sys

import torch


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
        opset_version=opset,
        dynamic_shapes=({0: batch},),
        optimize=not keep_batchnorm,
    )
    program.save(out, external_data=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="torchvision's name, or timm/ and timm's")
    parser.add_argument("--weights", help="torchvision's weights (DEFAULT, IMAGENET1K_V1, ...); anything for timm's pretrained ones")
    parser.add_argument("--out", help="file to write (default: the model's name with .onnx)")
    parser.add_argument("--size", type=int, help="height and width of the input (default: what the weights state, else 224)")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript")
    parser.add_argument("--keep-batchnorm", action="store_true", help="do not fold BatchNorm, so that conv names keep their values")
    args = parser.parse_args()

    out = args.out or args.model.split("/")[-1] + ".onnx"
    model, size, preprocessing = load(args.model, args.weights, args.size)
    example = torch.randn(2, 3, size, size)
    export = export_torchscript if args.exporter == "torchscript" else export_dynamo
    # The dynamo exporter writes opset 18 at the least.
    opset = max(args.opset, 18) if args.exporter == "dynamo" else args.opset
    with torch.no_grad():
        export(model, example, out, opset, args.keep_batchnorm)
    print(f"written: {out}, input [batch, 3, {size}, {size}]")
    print(f"preprocessing of these weights: {preprocessing}")


if __name__ == "__main__":
    sys.exit(main())
