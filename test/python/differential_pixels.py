"""Random configurations through the libraries: what transformers, timm and OpenCLIP make of photos, as hashes. Compare with differential_pixels.mjs.

    python test/python/differential_pixels.py ROWS.json [SEED] [COUNT]

Needs torch, torchvision, transformers, timm, open_clip_torch and Pillow up to 12.3 (13 resizes narrow pictures in another order).
"""
import hashlib, json, random, sys, tempfile, warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench' / 'peers'))
warnings.filterwarnings('ignore')
from torchvision_here import torch  # noqa: E402
import numpy as np, open_clip, timm, transformers  # noqa: E402
from PIL import Image  # noqa: E402

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
target, seed, count = sys.argv[1], int((sys.argv + [''] * 2)[2] or 1), int((sys.argv + [''] * 3)[3] or 300)
rng = random.Random(seed)
images = sorted(map(str, (ROOT / 'test/fixtures/preprocess/images').glob('[ejs]*.jpg'))) + sorted(map(str, (ROOT / 'test/fixtures/preprocess/images').glob('synthetic_*.png')))
CLASSES = 'CLIP Bit Siglip ViT Blip Beit DeiT DINOv3ViT ConvNext PoolFormer Levit MobileNetV1 MobileNetV2 MobileViT EfficientNet'.split()
side = lambda: rng.choice([64, 100, 129, 224, 230, 256, 384])
pair = lambda: {'height': side(), 'width': side()}
numbers = lambda: rng.choice([[.5, .5, .5], [.1, .2, .3], .4, None])
flag = lambda: rng.choice([True, True, False, None])


def size():
    short = side()
    return rng.choice([short, {'shortest_edge': short}, {'shortest_edge': short, 'longest_edge': short + rng.choice([0, 10, 300])}, pair(), {'height': short, 'width': short}])


def some(share, **fields):
    return {name: make() for name, make in fields.items() if rng.random() < share}


def hugging_face():
    config = dict(image_processor_type=f"{rng.choice(CLASSES)}ImageProcessor{rng.choice(['', 'Fast'])}", **some(.8, size=size), **some(.4,
        crop_size=lambda: rng.choice([side(), pair(), None]), do_resize=flag, do_rescale=flag, do_normalize=flag, do_center_crop=flag,
        resample=lambda: rng.choice([0, 1, 2, 2, 3, 3, 4, 5, None]), rescale_factor=lambda: rng.choice([1 / 255, 1 / 127.5, .01, None]), image_mean=numbers, image_std=numbers),
        **some(.15, crop_pct=lambda: rng.choice([.875, 1.0, None]), default_to_square=flag, do_flip_channel_order=flag, rescale_offset=flag, include_top=flag, do_pad=flag))
    backend = rng.choice(['pil', 'torchvision'])

    def run(image):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'preprocessor_config.json').write_text(json.dumps(config))
            processor = transformers.AutoImageProcessor.from_pretrained(folder, backend=backend)
        return processor(images=image, return_tensors='np')['pixel_values'][0]
    return config, backend, run


def by_timm():
    equal = side()
    config = some(.6, input_size=lambda: rng.choice([[3, equal, equal], [3, side(), side()]]), crop_pct=lambda: rng.choice([.875, .95, 1.0, .5]),
                  crop_mode=lambda: rng.choice(['center', 'squash', 'border']), interpolation=lambda: rng.choice(['bilinear', 'bicubic', 'nearest', 'lanczos', 'box', 'hamming']),
                  mean=lambda: [.5, .4, .3], std=lambda: [.2, .3, .4], test_input_size=lambda: [3, 288, 288])
    run = lambda image: timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=config))(image).numpy()
    return dict(architecture='x', pretrained_cfg=config), 'pil', run


def by_open_clip():
    image_size = rng.choice([side(), side(), [side(), side()]])
    config = some(.6, interpolation=lambda: rng.choice(['bicubic', 'bilinear']), resize_mode=lambda: rng.choice(['shortest', 'longest', 'squash']),
                  fill_color=lambda: rng.choice([0, 17, 255]), mean=lambda: [.5, .4, .3], std=lambda: [.2, .3, .4])
    full = open_clip.transform.PreprocessCfg(**config, size=tuple(image_size) if isinstance(image_size, list) else image_size)
    run = lambda image: open_clip.transform.image_transform_v2(full, is_train=False)(image).numpy()
    return dict(model_cfg=dict(vision_cfg=dict(image_size=image_size)), preprocess_cfg=config), 'pil', run


rows = []
for _ in range(count):
    config, backend, run = rng.choice([hugging_face, hugging_face, by_timm, by_open_clip])()
    row = dict(config=config, backend=backend, image=rng.choice(images))
    try:
        tensor = np.ascontiguousarray(run(Image.open(row['image']).convert('RGB')), np.float32)
        row.update(shape=list(tensor.shape), sha256=hashlib.sha256(tensor.tobytes()).hexdigest())
    except Exception as error:
        row.update(error=f'{type(error).__name__}: {error}'[:160])
    rows.append(row)
Path(target).write_text(json.dumps(rows))
print(f"{len(rows)} configurations, {sum('error' in row for row in rows)} of which the library refuses")
