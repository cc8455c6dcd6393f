"""Exports one of torchvision's models with seeded random weights: the ONNX file, its names for tapir, and a checkpoint for torchvision.

python export_untrained.py ARCHITECTURE OUT.onnx
"""
import os
import sys

from torchvision_here import torch, torchvision

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../models'))
from export_torchvision import export_torchscript, find_names, write_names

ARCHITECTURE, OUT = sys.argv[1], sys.argv[2]
OPSET = 17

torch.manual_seed(0)
model = torchvision.models.get_model(ARCHITECTURE, weights=None).eval()
example = torch.randn(2, 3, 224, 224)


def export(network, file):
    export_torchscript(network, example, file, OPSET, False)


export(model, OUT)
names, absent, method = find_names(model, export, OUT, example)
write_names(names, absent, method, OUT, ARCHITECTURE, 'torchscript')
checkpoint = {'architecture': ARCHITECTURE, 'state_dict': model.state_dict()}
torch.save(checkpoint, OUT.removesuffix('.onnx') + '.pth')
print(f'written: {OUT}, {len(names)} names')
