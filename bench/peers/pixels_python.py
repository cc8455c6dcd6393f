"""Random photos, and what Python libraries make of each: raw float32 files, and a line of JSON per library.

python pixels_python.py FOLDER COUNT SEED CONFIGURATIONS

FOLDER gets photos/NNNN.png and LIBRARY.CONFIGURATION.f32: all photos after one another. A library that is not installed gives the reason.
"""
import json
import os
import sys

import numpy as np
import PIL
from PIL import Image
from torchvision_here import torch

folder, count, seed, configurations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
torch.set_num_threads(1)
random = np.random.default_rng(seed)
photos = os.path.join(folder, 'photos')
os.makedirs(photos)


def make_photo(path):
    """Smooth colours with noise; sides from 40 to 1200, at most 4 to 1."""
    long = int(np.exp(random.uniform(np.log(40), np.log(1200))))
    short = max(1, int(long / random.uniform(1, 4)))
    width, height = (long, short) if random.integers(0, 2) else (short, long)
    coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=np.int16)
    noisy = smooth + random.integers(-24, 25, smooth.shape, dtype=np.int16)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path)


def transformers_of(config, suffix):
    import transformers

    fields = {key: value for key, value in config.items() if key != 'image_processor_type'}
    processor = getattr(transformers, config['image_processor_type'] + suffix)(**fields)
    return transformers.__version__, lambda path: processor(images=Image.open(path).convert('RGB'), return_tensors='np')['pixel_values'][0]


def timm_of(config):
    import timm

    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=config['pretrained_cfg']))
    return timm.__version__, lambda path: transform(Image.open(path).convert('RGB')).numpy()


def open_clip_of(config):
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    transform = image_transform_v2(PreprocessCfg(**config['preprocess_cfg']), is_train=False)
    return open_clip.__version__, lambda path: transform(Image.open(path)).numpy()


def fastembed_of(config):
    import fastembed
    from fastembed.image.transform.operators import Compose

    transform = Compose.from_config(config)
    return fastembed.__version__, lambda path: np.asarray(transform([Image.open(path)])[0])


def sentence_transformers_of(config):
    import sentence_transformers
    from sentence_transformers.base.modules import Transformer
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    # Its module for CLIP needs a model and a tokenizer, too: the smallest there are.
    small = {'hidden_size': 8, 'intermediate_size': 8, 'num_attention_heads': 1, 'num_hidden_layers': 1}
    model = os.path.join(folder, 'clip')
    CLIPModel(CLIPConfig(text_config={**small, 'vocab_size': 4}, vision_config=small, projection_dim=8)).save_pretrained(model)
    tokenizer = CLIPTokenizer(vocab={'<|startoftext|>': 0, '<|endoftext|>': 1, 'a</w>': 2, 'a': 3}, merges=[])
    fields = {key: value for key, value in config.items() if key != 'image_processor_type'}
    CLIPProcessor(CLIPImageProcessor(**fields), tokenizer).save_pretrained(model)
    module = Transformer(model)
    return sentence_transformers.__version__, lambda path: np.asarray(module.preprocess([Image.open(path)])['pixel_values'][0])


LIBRARIES = {
    'transformers': lambda config: transformers_of(config, ''),
    'transformers-pil': lambda config: transformers_of(config, 'Pil'),
    'timm': timm_of,
    'open_clip': open_clip_of,
    'fastembed': fastembed_of,
    'sentence-transformers': sentence_transformers_of,
}

paths = [os.path.join(photos, f'{index:04}.png') for index in range(count)]
for path in paths:
    make_photo(path)
print(json.dumps({'pillow': PIL.__version__}), flush=True)
for at, (library, config) in enumerate(configurations):
    if library not in LIBRARIES:
        continue
    try:
        version, prepare = LIBRARIES[library](config)
        counts = []
        with open(os.path.join(folder, f'{at}.f32'), 'wb') as file:
            for path in paths:
                values = np.ascontiguousarray(prepare(path), dtype=np.float32)
                counts.append(values.size)
                file.write(values.tobytes())
        print(json.dumps({'at': at, 'version': version, 'counts': counts}), flush=True)
    except Exception as error:
        print(json.dumps({'at': at, 'reason': f'{type(error).__name__}: {error}'}), flush=True)
