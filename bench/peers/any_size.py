"""DINOv2 and DINOv3 of transformers for photos of any size, with random weights, in the size of ViT-S: no hub is needed.

python any_size.py export FOLDER     FOLDER/<name>/model.onnx, and the configurations beside it
python any_size.py run FOLDER        what torch gives for FOLDER/<name>/<n>.npy, as FOLDER/<name>/<n>.expected.npy
"""
import json
import os
import sys

import numpy as np
from torchvision_here import torch

torch.set_num_threads(1)
torch.manual_seed(7)
PROCESSOR = {
    'image_processor_type': 'BitImageProcessor',
    'do_resize': True, 'size': {'shortest_edge': 256}, 'resample': 3,
    'do_center_crop': True, 'crop_size': {'height': 224, 'width': 224},
    'do_rescale': True, 'rescale_factor': 1 / 255,
    'do_normalize': True, 'image_mean': [0.485, 0.456, 0.406], 'image_std': [0.229, 0.224, 0.225],
}


class Tokens(torch.nn.Module):
    """The tokens alone."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pixel_values):
        return self.inner(pixel_values=pixel_values).last_hidden_state


def dinov2():
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    model = Dinov2Model(config)
    # The table of positions starts at zero.
    torch.nn.init.normal_(model.embeddings.position_embeddings, std=0.5)
    return Tokens(model)


def dinov3():
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    config = DINOv3ViTConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=6, patch_size=16)
    return Tokens(DINOv3ViTModel(config))


MODELS = {'dinov2': dinov2, 'dinov3': dinov3}


def export(folder):
    for name, make in MODELS.items():
        place = os.path.join(folder, name)
        os.makedirs(place, exist_ok=True)
        model = make().eval()
        torch.save(model.state_dict(), os.path.join(place, 'state.pt'))
        axes = {'pixel_values': {0: 'batch', 2: 'height', 3: 'width'}, 'tokens': {0: 'batch', 1: 'count'}}
        torch.onnx.export(
            model, (torch.zeros(2, 3, 16 * 14, 16 * 21),), os.path.join(place, 'model.onnx'),
            input_names=['pixel_values'], output_names=['tokens'], dynamic_axes=axes, opset_version=17, dynamo=False,
        )
        for file, fields in (('preprocessor_config.json', PROCESSOR), ('config.json', {'patch_size': model.inner.config.patch_size})):
            with open(os.path.join(place, file), 'w') as out:
                json.dump(fields, out)


def run(folder):
    for name, make in MODELS.items():
        place = os.path.join(folder, name)
        model = make().eval()
        model.load_state_dict(torch.load(os.path.join(place, 'state.pt')))
        for file in sorted(os.listdir(place)):
            if not file.endswith('.npy') or 'expected' in file:
                continue
            with torch.no_grad():
                tokens = model(torch.from_numpy(np.load(os.path.join(place, file))))
            np.save(os.path.join(place, file.replace('.npy', '.expected.npy')), tokens.numpy())


{'export': export, 'run': run}[sys.argv[1]](sys.argv[2])
