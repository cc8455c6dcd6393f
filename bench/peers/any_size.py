"""DINOv2 for photos of any size, with random weights, in the size of ViT-S/14: no hub is needed.

python any_size.py export FOLDER     FOLDER/<name>/model.onnx of transformers and of timm, and the configurations beside them
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
    """One output, whatever the library returns."""

    def __init__(self, inner, take):
        super().__init__()
        self.inner = inner
        self.take = take

    def forward(self, pixel_values):
        return self.take(self.inner, pixel_values)


def of_transformers():
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    model = Dinov2Model(config)
    # The table of positions starts at zero.
    torch.nn.init.normal_(model.embeddings.position_embeddings, std=0.5)
    return Tokens(model, lambda inner, pixels: inner(pixel_values=pixels).last_hidden_state)


def of_timm():
    import timm

    model = timm.create_model('vit_small_patch14_dinov2', dynamic_img_size=True)
    torch.nn.init.normal_(model.pos_embed, std=0.5)
    return Tokens(model, lambda inner, pixels: inner.forward_features(pixels))


MODELS = {'transformers': of_transformers, 'timm': of_timm}


def export(folder):
    for name, make in MODELS.items():
        place = os.path.join(folder, name)
        os.makedirs(place, exist_ok=True)
        model = make().eval()
        torch.save(model.state_dict(), os.path.join(place, 'state.pt'))
        axes = {'pixel_values': {0: 'batch', 2: 'height', 3: 'width'}, 'tokens': {0: 'batch', 1: 'count'}}
        torch.onnx.export(
            model, (torch.zeros(2, 3, 224, 252),), os.path.join(place, 'model.onnx'),
            input_names=['pixel_values'], output_names=['tokens'], dynamic_axes=axes, opset_version=17, dynamo=False,
        )
        for file, fields in (('preprocessor_config.json', PROCESSOR), ('config.json', {'model_type': 'dinov2', 'patch_size': 14})):
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
