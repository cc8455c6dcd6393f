"""What every image processor of transformers makes of pictures, with its defaults and with odd configurations, for npm run conformance -- processors.

Run: python conformance/processors.py OUT [CLASSES]   (transformers, torch, torchvision; nothing is downloaded)

OUT gets pictures that are not in the repository, and processors.json: for each class and backend its saved fields, and for each configuration the type, shape and
SHA-256 of each tensor of each picture, or the library's error. Without CLASSES (A,B,C) all classes have their defaults only. Padding and
what only one class does are switched off in odd configurations that do not ask for them.
"""
import copy
import hashlib
import json
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import PIL
import torch
import transformers
from PIL import Image
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

warnings.filterwarnings('ignore')
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
fixtures = Path(__file__).parent.parent / 'test/fixtures/preprocess/images'
TESTED = ['enlarge_100x75.jpg', 'png_rgb_333x500.png']
noise = np.random.default_rng(3)
for name, (width, height) in {'flat.png': (150, 7), 'tall.png': (97, 641), 'odd.png': (225, 224), 'tiny.png': (29, 33)}.items():
    Image.fromarray(noise.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(out / name)
paths = [*[fixtures / name for name in TESTED], *sorted(out.glob('*.png'))]
pictures = {path.name: Image.open(path).convert('RGB') for path in paths}

# Values of the fields that many classes have. Each is tried alone, then some together.
ODD = {
    'size': [{'height': 61, 'width': 133}, {'shortest_edge': 97}, {'shortest_edge': 64, 'longest_edge': 100}, {'longest_edge': 80}, 75],
    'resample': [0, 1, 2, 3],
    'do_resize': [False, True],
    'do_center_crop': [True, False],
    'crop_size': [{'height': 60, 'width': 41}, {'height': 301, 'width': 290}],
    'do_rescale': [False],
    'rescale_factor': [1 / 127.5],
    'do_normalize': [False, True],
    'image_mean': [[0.1, 0.2, 0.3]],
    'image_std': [[0.9, 0.8, 0.7]],
    'do_pad': [True, False],
    'pad_size': [{'height': 700, 'width': 710}],
    'default_to_square': [True, False],
    'do_convert_rgb': [False],
}
# Processors that cut patches read these fields as numbers of pixels.
ODD_PATCHES = {
    'size': [{'shortest_edge': 32 * 32 * 5, 'longest_edge': 32 * 32 * 41}, {'shortest_edge': 200_000, 'longest_edge': 300_001}],
    'patch_size': [12, 16],
    'merge_size': [1, 3],
    'temporal_patch_size': [1, 2, 3],
    'min_pixels': [28 * 28 * 30],
    'max_pixels': [28 * 28 * 57],
    **{name: ODD[name] for name in ('resample', 'do_rescale', 'do_normalize', 'rescale_factor', 'image_mean', 'image_std', 'do_resize')},
}
SAVED_APART = {'image_processor_type', 'processor_class', '_processor_class'}


def describe(processor):
    found = {}
    for name, picture in pictures.items():
        try:
            tensors = processor(images=picture, return_tensors='pt')
            found[name] = {key: [str(value.dtype).removeprefix('torch.'), list(value.shape), hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()]
                           for key, value in tensors.items() if isinstance(value, torch.Tensor)}
        except Exception as error:
            found[name] = f'{type(error).__name__}: {error}'[:120]
    return found


def saved(processor):
    return {name: value for name, value in json.loads(processor.to_json_string()).items() if name not in SAVED_APART}


def own_values(fields):
    """Other values of the fields that only this class has."""
    for name, value in fields.items():
        if name in ODD or name in ODD_PATCHES:
            continue
        if isinstance(value, bool) or value is None:
            yield name, [not value]
        elif isinstance(value, (int, float)):
            yield name, [value + 1, value * 3]
        elif isinstance(value, dict) and all(isinstance(one, int) for one in value.values()):
            yield name, [{key: one + 7 for key, one in value.items()}]


def configurations(fields, is_patches):
    choices = {**(ODD_PATCHES if is_patches else ODD), **dict(own_values(fields))}
    yield from ({name: value} for name, values in choices.items() for value in values)
    yield from ({'do_center_crop': True, 'crop_size': crop, **more} for crop in ODD['crop_size'] for more in ({}, {'do_resize': False})) if not is_patches else ()
    yield {}
    if not is_patches:
        yield {'do_normalize': True, 'image_mean': ODD['image_mean'][0], 'image_std': ODD['image_std'][0]}
    yield {'do_rescale': False, 'do_normalize': False}
    pick = random.Random(11)
    for _ in range(16):
        names = pick.sample(sorted(choices), k=min(len(choices), pick.randint(2, 5)))
        yield {name: pick.choice(choices[name]) for name in names}


models = {}
for model_type, given in IMAGE_PROCESSOR_MAPPING_NAMES.items():
    for name in given.values() if isinstance(given, dict) else given if isinstance(given, (tuple, list)) else [given]:
        if name:
            models.setdefault(name.removesuffix('Pil').removesuffix('ImageProcessor'), []).append(model_type)
only = sys.argv[2].split(',') if len(sys.argv) > 2 else None
results = {}
for name in sorted(only or models):
    for backend, suffix in (('torchvision', ''), ('pil', 'Pil')):
        cls = getattr(transformers, f'{name}ImageProcessor{suffix}', None)
        if cls is None:
            continue
        result = results.setdefault(name, {'models': sorted(set(models[name])), 'backends': {}})['backends'][backend] = {}
        try:
            processor = cls()
            fields = saved(processor)
            result.update(fields=fields, cases=[{'given': {}, 'tensors': describe(processor)}])
        except Exception as error:
            result['error'] = f'{type(error).__name__}: {error}'[:120]
            continue
        first = result['cases'][0]['tensors'][TESTED[1]]
        if only is None or not isinstance(first, dict):
            continue
        off = {field: False for field, value in fields.items() if value is True and (field == 'do_pad' or field not in ODD)}
        for given in configurations(fields, len(first.get('pixel_values', [0, []])[1]) != 4):
            try:
                given = {**off, **given}
                processor = cls(**copy.deepcopy(given))
                case = {'given': given, 'fields': saved(processor), 'tensors': describe(processor)}
            except Exception as error:
                case = {'given': given, 'error': f'{type(error).__name__}: {error}'[:120]}
            result['cases'].append(case)
    print(name, sum(len(one.get('cases', [])) for one in results.get(name, {'backends': {}})['backends'].values()), flush=True)
versions = {'transformers': transformers.__version__, 'torchvision': __import__('torchvision').__version__, 'Pillow': PIL.__version__}
(out / 'processors.json').write_text(json.dumps({'versions': versions, 'tested': TESTED, 'classes': results}))
