"""The model's own pixels, end to end: tiny twins of the models of the catalogue, exported here with their real processors, embedded by
`tapir embed` without a transform flag, and by Python (the library's processor and onnxruntime). Prints a table; exit status 1 if a vector differs by more
than 1e-5. Needs torch, torchvision, transformers, timm, open_clip_torch, onnx, onnxruntime, pillow; not part of CI.

    python test/python/own_pixels.py [PHOTO FOLDER]        (after npm run build)
"""
import json, os, subprocess, sys, tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench' / 'peers'))
from torchvision_here import torch, torchvision  # noqa: E402  (also where its operators do not load)
import onnxruntime, open_clip, timm, transformers  # noqa: E402
from PIL import Image  # noqa: E402

import warnings  # noqa: E402

warnings.filterwarnings('ignore')
torch.manual_seed(0)
PHOTOS = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'examples' / 'photos'
WORK = Path(tempfile.mkdtemp(prefix='tapir-pixels-'))
WIDE = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


class Pooled(torch.nn.Module):
    """The model's mean over tokens or positions, whatever it returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        out = self.model(pixel_values)
        out = getattr(out, 'image_embeds', None) if getattr(out, 'image_embeds', None) is not None else getattr(out, 'last_hidden_state', out)
        return out.mean(1) if out.dim() == 3 else out.mean((2, 3)) if out.dim() == 4 else out


def export(name, model, size, place='onnx/model.onnx'):
    path = WORK / name / place
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(Pooled(model).eval(), (torch.zeros(1, 3, *size),), str(path), input_names=['pixel_values'], output_names=['vector'],
                      dynamic_axes={'pixel_values': {0: 'n'}, 'vector': {0: 'n'}}, dynamo=False, opset_version=17)
    return path


def hugging_face(name, model, processor, config=None):
    size = getattr(processor, 'crop_size', None) if getattr(processor, 'do_center_crop', False) else None
    size = size or processor.size
    side = (size['height'], size['width']) if 'height' in size else (size['shortest_edge'],) * 2
    path = export(name, model, side)
    processor.save_pretrained(WORK / name)
    if config: (WORK / name / 'preprocessor_config.json').write_text(json.dumps(config))
    load = transformers.AutoImageProcessor.from_pretrained(WORK / name)
    return path, lambda image: np.asarray(load(images=image, return_tensors='np')['pixel_values'])


def by_timm(name):
    model = timm.create_model(name, pretrained=False, num_classes=0)
    config = model.pretrained_cfg if isinstance(model.pretrained_cfg, dict) else model.pretrained_cfg.to_dict()
    data = timm.data.resolve_data_config({}, model=model)
    transform = timm.data.create_transform(**data)
    path = export(name, model, data['input_size'][1:], 'model.onnx')
    keep = {k: v for k, v in config.items() if isinstance(v, (int, float, str, bool, list, tuple)) or v is None}
    (path.parent / 'config.json').write_text(json.dumps(dict(architecture=name, num_classes=0, pretrained_cfg=keep)))
    return path, lambda image: transform(image)[None].numpy()


def by_open_clip(name, config):
    vision = timm.create_model('resnet10t', pretrained=False, num_classes=0)
    size = config['model_cfg']['vision_cfg']['image_size']
    cfg = dict(config['preprocess_cfg'], size=size)
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**cfg), is_train=False)
    path = export(name, vision, (size, size), 'open_clip_model.onnx')
    (path.parent / 'open_clip_config.json').write_text(json.dumps(config))
    return path, lambda image: transform(image)[None].numpy()


T = transformers
vit = lambda cls, cfg, **more: cls(cfg(**{**WIDE, **more}))
HALF = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
MODELS = {
    'CLIP B/32': lambda: hugging_face('clip', T.CLIPVisionModelWithProjection(T.CLIPVisionConfig(**WIDE, patch_size=32, projection_dim=16)), T.CLIPImageProcessor()),
    'SigLIP2 base': lambda: hugging_face('siglip2', vit(T.SiglipVisionModel, T.SiglipVisionConfig, image_size=224, patch_size=32), T.SiglipImageProcessor(size=dict(height=224, width=224), resample=2)),
    'DINOv2': lambda: hugging_face('dinov2', vit(T.Dinov2Model, T.Dinov2Config, image_size=224, patch_size=14, mlp_ratio=1), T.BitImageProcessor(size=dict(shortest_edge=256), crop_size=dict(height=224, width=224), image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])),
    'DINOv3 ViT-S/16': lambda: hugging_face('dinov3', vit(T.DINOv3ViTModel, T.DINOv3ViTConfig, image_size=224, patch_size=16), T.DINOv3ViTImageProcessorFast()),
    'MobileCLIP S0': lambda: hugging_face('mobileclip', timm.create_model('resnet10t', pretrained=False, num_classes=0), T.CLIPImageProcessor(size=dict(shortest_edge=256), crop_size=dict(height=256, width=256), resample=2, do_normalize=False)),
    'nomic vision 1.5': lambda: hugging_face('nomic', vit(T.ViTModel, T.ViTConfig, patch_size=16), T.CLIPImageProcessor(size=dict(height=224, width=224), image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])),
    'ViT B/16': lambda: hugging_face('vit', vit(T.ViTModel, T.ViTConfig, patch_size=16), T.ViTImageProcessor()),
    'ConvNeXt': lambda: hugging_face('convnext', T.ConvNextModel(T.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])), T.ConvNextImageProcessor(size=dict(shortest_edge=224), crop_pct=0.875)),
    'ResNet-50 (Hugging Face)': lambda: hugging_face('resnet', T.ResNetModel(T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])), T.ConvNextImageProcessor(size=dict(shortest_edge=224), crop_pct=0.875)),
    'ResNet (timm)': lambda: by_timm('resnet10t'),
    'ViT (timm)': lambda: by_timm('vit_tiny_patch16_224'),
    'OpenCLIP': lambda: by_open_clip('open_clip', dict(model_cfg=dict(embed_dim=16, vision_cfg=dict(image_size=224)), preprocess_cfg=dict(mean=[0.48145466, 0.4578275, 0.40821073], std=[0.26862954, 0.26130258, 0.27577711], interpolation='bicubic', resize_mode='shortest'))),
    'OpenCLIP, squash': lambda: by_open_clip('open_clip_squash', dict(model_cfg=dict(embed_dim=16, vision_cfg=dict(image_size=224)), preprocess_cfg=dict(**{k.split('_')[1]: v for k, v in HALF.items()}, interpolation='bicubic', resize_mode='squash'))),
}

photos = sorted(path for path in PHOTOS.rglob('*') if path.suffix in ('.jpg', '.png'))[:24]
worst = 0.0
print(f"{'model':28} {'photos':>6} {'largest difference':>20}   transform")
for title, make in MODELS.items():
    path, pixels = make()
    out = subprocess.run(['node', str(ROOT / 'dist/lib/bin.cjs'), 'embed', '-', '--model', str(path), '--return', 'vector=v', '--out', '-', '--format', 'jsonl'],
                         input='\n'.join(map(str, photos)), capture_output=True, text=True)
    if out.returncode: sys.exit(f'{title}: {out.stderr}')
    ours = {row['path']: np.float32(row['v']) for row in map(json.loads, out.stdout.splitlines())}
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    difference = 0.0
    for photo in photos:
        with Image.open(photo) as image: fed = pixels(image.convert('RGB'))
        theirs = session.run(None, {'pixel_values': np.ascontiguousarray(fed, np.float32)})[0][0]
        difference = max(difference, float(np.abs(ours[str(photo)] - theirs).max()))
    worst = max(worst, difference)
    said = out.stderr.strip().split(str(WORK) + os.sep)[-1]
    print(f'{title:28} {len(photos):6} {difference:20.3g}   {said}')
print(f'transformers {T.__version__}, timm {timm.__version__}, open_clip {open_clip.__version__}, torchvision {torchvision.__version__}, onnxruntime {onnxruntime.__version__}')
sys.exit(worst > 1e-5)
