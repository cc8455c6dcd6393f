"""What Python's libraries give, for npm run conformance: pixels and names of torchvision's networks, small networks of timm with all of it.

Run: python conformance/reference.py PHOTOS OUT   (torch, torchvision, timm, onnx; nothing is downloaded)
"""
import json
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'bench', 'peers'))
from torchvision_here import torch, torchvision  # noqa: E402

import numpy  # noqa: E402
import timm  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision.models.feature_extraction import get_graph_node_names  # noqa: E402

TWINS = """convnext_atto convnextv2_atto deit_tiny_patch16_224 edgenext_xx_small efficientformerv2_s0 efficientvit_m0 fastvit_t8
ghostnet_050 hgnetv2_b0 levit_128s lcnet_050 mixer_s32_224 mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0 mobilevit_xxs
nfnet_f0 pit_ti_224 poolformerv2_s12 regnetx_002 repvgg_a0 resnet10t resnest14d seresnext26d_32x4d tf_efficientnet_lite0 tinynet_e
vit_tiny_patch16_224 vit_small_patch14_reg4_dinov2 xcit_nano_12_p16_224""".split()

photos, out = Path(sys.argv[1]), Path(sys.argv[2])
warnings.filterwarnings('ignore')
images = {path.relative_to(photos).as_posix(): Image.open(path).convert('RGB') for path in sorted(photos.glob('**/*.jpg'))}


def save(folder, prepare, model=None):
    arrays = {}
    for name, image in images.items():
        pixels = prepare(image)
        arrays[f'{name}:pixels'] = pixels.numpy()
        if model is not None:
            with torch.no_grad():
                arrays[name] = model(pixels[None])[0].numpy()
    folder.mkdir(parents=True, exist_ok=True)
    numpy.savez(folder / 'reference.npz', **arrays)


for name in torchvision.models.list_models(module=torchvision.models):
    weights = torchvision.models.get_model_weights(name).DEFAULT
    save(out / 'torchvision' / name, weights.transforms())
    # Without numbers, unless the constructor computes with them.
    with torch.device('cpu' if name.startswith('regnet') else 'meta'):
        model = torchvision.models.get_model(name).eval()
    names = get_graph_node_names(model)[1]
    about = {'transform': f'torchvision:{type(weights).__name__}.{weights.name}', 'names': names}
    (out / 'torchvision' / name / 'about.json').write_text(json.dumps(about))

for name in TWINS:
    torch.manual_seed(0)
    try:
        model = timm.create_model(name, pretrained=False).eval()
        config = timm.data.resolve_data_config({}, model=model)
        folder = out / 'timm' / name
        save(folder, timm.data.create_transform(**config), model)
        about = {'architecture': name, 'pretrained_cfg': {**model.pretrained_cfg}}
        (folder / 'config.json').write_text(json.dumps(about, default=str))
        shape = (1, *config['input_size'])
        axes = {'x': {0: 'n'}, 'y': {0: 'n'}}
        torch.onnx.export(model, (torch.zeros(shape),), str(folder / 'model.onnx'), dynamo=False, opset_version=17,
                          input_names=['x'], output_names=['y'], dynamic_axes=axes)
    except Exception as error:  # One network less; the table says which there are.
        print(f'{name}: {error}', file=sys.stderr)
