"""What transformers, timm and open_clip make of photos by every configuration at hand, for npm run conformance -- pixels.

Run: python conformance/pixels.py OUT [--configs]   (transformers, torch, torchvision, timm, open_clip_torch; nothing is downloaded)

OUT gets photos, a folder per configuration as it lies on the Hub, and reference.json: for each photo and door the SHA-256 of the tensor. Doors:
`drop` is convert("RGB"), `white` lays transparency over white as transformers 5 does, `exif` turns the photo upright first. With --configs, photos are not measured.
"""
import hashlib
import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import open_clip
import PIL
import timm
import torch
import transformers
from open_clip.pretrained import _PRETRAINED
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from PIL import Image, ImageOps
from timm.data import create_transform, resolve_data_config
from timm.models import get_pretrained_cfg
from timm.models._pretrained import filter_pretrained_cfg
from transformers import AutoImageProcessor
from transformers.image_transforms import convert_to_rgb

warnings.filterwarnings('ignore')
transformers.logging.set_verbosity_error()
torch.set_num_threads(2)
out = Path(sys.argv[1])
photos = out / 'photos'
photos.mkdir(parents=True, exist_ok=True)
random = np.random.default_rng(7)
# timm and open_clip resize by Pillow alone: one photo of 12 megapixels says no more than the others, and takes longest.
LARGE = 'large.jpg'


def picture(height, width, channels=3):
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 70 * np.sin(x / (7 + 3 * k) + k) + 50 * np.cos(y / (11 + 2 * k)) for k in range(channels)]
    noisy = np.stack(waves, -1) + random.normal(0, 25, (height, width, channels))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def save(name, array, mode=None, **options):
    image = array if isinstance(array, Image.Image) else Image.fromarray(array, mode)
    image.save(photos / name, **options)


turned = Image.Exif()
turned[0x112] = 6
save('photo.jpg', picture(375, 500), quality=90)
save('tall.jpg', picture(500, 363), quality=92)
save('one.png', picture(1, 1))
save('tiny.png', picture(5, 3))
save('narrow.png', picture(900, 11))
save('flat.jpg', picture(16, 1200))
save('taller.jpg', picture(1400, 200), quality=85)
save('grey.jpg', picture(301, 402, 1)[..., 0])
save('cmyk.jpg', picture(301, 402, 4), 'CMYK')
save('rgba.png', picture(255, 333, 4), 'RGBA')
save('palette.png', Image.fromarray(picture(256, 256)).quantize(64), transparency=5)
save('turned.jpg', picture(299, 451), exif=turned)
save('grey_alpha.png', picture(222, 223, 2), 'LA')
save('photo.webp', picture(479, 641), quality=80)
save('progressive.jpg', picture(479, 641), progressive=True, subsampling=2, quality=75)
save(LARGE, picture(3000, 4000), quality=80)
save('frame.gif', Image.fromarray(picture(120, 190)).quantize(255))
save('one_bit.png', Image.fromarray(picture(100, 131, 1)[..., 0] > 127))
save('own_size.png', picture(224, 224))
save('photo.bmp', picture(257, 225))


def doors(path):
    image = Image.open(path)
    yield 'drop', image.convert('RGB')
    if image.getexif().get(0x112, 1) != 1:
        yield 'exif', ImageOps.exif_transpose(image).convert('RGB')
    if 'A' in image.getbands() or image.info.get('transparency') is not None:
        yield 'white', Image.fromarray(convert_to_rgb(Image.open(path), return_numpy=True))


def opaque(image):
    # Pillow keeps a transparent colour after convert("RGB"), and transformers would lay it over white.
    image.info.pop('transparency', None)
    return image


def measure(prepare, names):
    found = {}
    for name in [] if '--configs' in sys.argv else names:
        for door, image in doors(photos / name):
            try:
                tensor = prepare(opaque(image)).to(torch.float32).contiguous().numpy()
                found[f'{name} {door}'] = hashlib.sha256(tensor.tobytes()).hexdigest()
            except Exception as error:
                found[f'{name} {door}'] = f'{type(error).__name__}: {error}'[:120]
    return found


def put(library, name, file, content):
    folder = out / library / name
    (folder / 'onnx').mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(content))
    return folder


names = sorted(path.name for path in photos.iterdir())
without_large = [name for name in names if name != LARGE]
results = {'transformers': {}, 'timm': {}, 'open_clip': {}}
configs = json.loads((Path(__file__).parent / 'configs' / 'transformers.json').read_text())
for name, (model_type, config) in configs.items():
    folder = put('transformers', name, 'config.json', {'model_type': model_type})
    put('transformers', name, 'preprocessor_config.json', config)
    try:
        processor = AutoImageProcessor.from_pretrained(folder)
        row = measure(lambda image: torch.as_tensor(processor(image, return_tensors='pt')['pixel_values']), names)
        results['transformers'][name] = {'class': type(processor).__name__, 'tensors': row}
    except Exception as error:
        results['transformers'][name] = {'error': f'{type(error).__name__}: {error}'[:200]}

seen = set()
for name in timm.list_models(pretrained=True):
    given = get_pretrained_cfg(name)
    key = (given.input_size, given.crop_pct, given.crop_mode, given.interpolation, given.mean, given.std, given.fixed_input_size)
    if key in seen:
        continue
    seen.add(key)
    fields = {field: value for field, value in asdict(given).items() if field != 'state_dict'}
    config = filter_pretrained_cfg(fields, remove_source=True, remove_null=True)
    config.pop('architecture', None)
    put('timm', name, 'config.json', {'architecture': name.split('.')[0], 'num_classes': 0, 'pretrained_cfg': config})
    written = json.loads((out / 'timm' / name / 'config.json').read_text())['pretrained_cfg']
    transform = create_transform(**resolve_data_config(pretrained_cfg=written))
    results['timm'][name] = {'tensors': measure(lambda image: transform(image)[None], without_large)}

seen = set()
for model, tags in _PRETRAINED.items():
    config = open_clip.get_model_config(model)
    if config is None:
        continue
    size = config['vision_cfg'].get('image_size', 224)
    for tag, settings in tags.items():
        pixels = {key: settings[key] for key in ('mean', 'std', 'interpolation', 'resize_mode') if key in settings}
        key = (json.dumps(pixels), json.dumps(size), 'timm_model_name' in config['vision_cfg'])
        if key in seen:
            continue
        seen.add(key)
        name = f'{model}__{tag}'
        put('open_clip', name, 'open_clip_config.json', {'model_cfg': config, 'preprocess_cfg': pixels})
        merged = merge_preprocess_dict(asdict(PreprocessCfg()), pixels)
        # The size of the tower wins, as in open_clip's factory.
        transform = image_transform_v2(PreprocessCfg(**{**merged, 'size': size}), is_train=False)
        results['open_clip'][name] = {'tensors': measure(lambda image: transform(image)[None], without_large)}

versions = {'transformers': transformers.__version__, 'timm': timm.__version__, 'open_clip': open_clip.__version__, 'Pillow': PIL.__version__}
(out / 'reference.json').write_text(json.dumps({'versions': versions, 'results': results}))
