"""Writes the weights of an ONNX file as a checkpoint of torchvision's resnet50, by name, so that both compute the same.

python state_dict.py MODEL OUT
"""
import sys

import onnx
import onnx.numpy_helper
from torchvision_here import torch, torchvision

weights = {
    tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
    for tensor in onnx.load(sys.argv[1]).graph.initializer
}
model = torchvision.models.resnet50(weights=None)
missing, unexpected = model.load_state_dict(weights, strict=False)
# ONNX has no count of the batches that BatchNorm has seen, and inference needs none.
missing = [name for name in missing if not name.endswith('.num_batches_tracked')]
if missing or unexpected:
    sys.exit(f'not a ResNet-50 under torchvision\'s names: {missing} missing, {unexpected} unexpected')
torch.save({'architecture': 'resnet50', 'state_dict': model.state_dict()}, sys.argv[2])
