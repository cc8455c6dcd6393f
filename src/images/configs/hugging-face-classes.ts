/** The image processors of transformers (5.23) whose arithmetic is known, with their defaults. */
import { IMAGENET_MEAN, IMAGENET_STD } from '../../base/imagenet.js';
import type { Channels } from './config-fields.js';
import { CLIP_MEAN, CLIP_STD, HALF } from './known-numbers.js';

/** A processor's defaults, by the names of its configuration. */
export interface ProcessorClass {
  readonly size: Readonly<Record<string, number>>;
  /** Whether a size that is one number means a square; else it is the shorter side. */
  readonly isSquare: boolean;
  readonly crop: number | null;
  /** Whether it crops unless the file says otherwise. */
  readonly crops: boolean;
  /** Pillow's number of the interpolation. */
  readonly resample: number;
  readonly mean: Channels;
  readonly std: Channels;
  /** What it does otherwise than the plain steps. */
  readonly special?:
    'never crops' | 'crop_pct' | 'crop_pct below 384' | '256/224' | 'bgr' | 'include_top' | 'float';
  /** Default of `crop_pct`. */
  readonly share?: number;
}

const BILINEAR = 2;
const BICUBIC = 3;

const square = (side: number): ProcessorClass['size'] => ({ height: side, width: side });
const edge = (side: number): ProcessorClass['size'] => ({ shortest_edge: side });

const PLAIN = { isSquare: true, crop: null, crops: false, mean: HALF, std: HALF } as const;
const CLIP: ProcessorClass = {
  size: edge(224),
  isSquare: false,
  crop: 224,
  crops: true,
  resample: BICUBIC,
  mean: CLIP_MEAN,
  std: CLIP_STD,
};
const MOBILE_NET: ProcessorClass = { ...CLIP, size: edge(256), resample: BILINEAR, mean: HALF, std: HALF };
const IMAGENET = { mean: IMAGENET_MEAN, std: IMAGENET_STD } as const;

/** By the class's name without `ImageProcessor`, `FeatureExtractor` and `Fast`. */
export const PROCESSOR_CLASSES: Readonly<Record<string, ProcessorClass>> = {
  CLIP,
  ChineseCLIP: CLIP,
  Bit: CLIP,
  Siglip: { ...PLAIN, size: square(224), isSquare: false, resample: BICUBIC },
  ViT: { ...PLAIN, size: square(224), resample: BILINEAR },
  Pvt: { ...PLAIN, ...IMAGENET, size: square(224), resample: BICUBIC },
  Segformer: { ...PLAIN, ...IMAGENET, size: square(512), resample: BILINEAR, special: 'never crops' },
  Blip: { ...PLAIN, size: square(384), resample: BICUBIC, mean: CLIP_MEAN, std: CLIP_STD },
  Beit: { ...PLAIN, size: square(224), crop: 224, resample: BICUBIC },
  DeiT: { ...PLAIN, size: square(256), crop: 224, crops: true, resample: BICUBIC },
  DINOv3ViT: { ...PLAIN, ...IMAGENET, size: square(224), resample: BILINEAR, special: 'float' },
  ConvNext: {
    ...PLAIN,
    size: edge(384),
    isSquare: false,
    resample: BICUBIC,
    special: 'crop_pct below 384',
    share: 224 / 256,
  },
  PoolFormer: { ...CLIP, ...IMAGENET, special: 'crop_pct', share: 0.9 },
  Levit: { ...CLIP, ...IMAGENET, special: '256/224' },
  MobileNetV1: MOBILE_NET,
  MobileNetV2: MOBILE_NET,
  MobileViT: { ...CLIP, crop: 256, mean: HALF, std: HALF, special: 'bgr' },
  EfficientNet: { ...PLAIN, size: square(346), crop: 289, resample: BICUBIC, special: 'include_top' },
};

/** The class of a nameless processor, by the model's type in `config.json`, as transformers' AutoImageProcessor chooses it. */
export const CLASS_OF_MODEL: Readonly<Record<string, string>> = {
  aimv2: 'CLIP', aimv2_vision_model: 'CLIP', altclip: 'CLIP', beit: 'Beit', bit: 'Bit', blip: 'Blip', 'blip-2': 'Blip',
  chinese_clip: 'ChineseCLIP', clip: 'CLIP', clip_vision_model: 'CLIP', clipseg: 'ViT', convnext: 'ConvNext', convnextv2: 'ConvNext',
  cvt: 'ConvNext', 'data2vec-vision': 'Beit', deit: 'DeiT', dinat: 'ViT', dinov2: 'Bit', dinov3_vit: 'DINOv3ViT',
  efficientnet: 'EfficientNet', focalnet: 'Bit', groupvit: 'CLIP', hiera: 'Bit', ijepa: 'ViT', levit: 'Levit', metaclip_2: 'CLIP',
  mlcd: 'CLIP', mobilenet_v1: 'MobileNetV1', mobilenet_v2: 'MobileNetV2', mobilevit: 'MobileViT', mobilevitv2: 'MobileViT',
  poolformer: 'PoolFormer', pvt: 'Pvt', pvt_v2: 'Pvt', regnet: 'ConvNext', resnet: 'ConvNext', segformer: 'Segformer', siglip: 'Siglip',
  siglip_vision_model: 'Siglip', swiftformer: 'ViT', swin: 'ViT', swinv2: 'ViT', van: 'ConvNext', vit: 'ViT', vit_mae: 'ViT',
  vit_msn: 'ViT', xclip: 'CLIP',
}; // prettier-ignore

/** Why a processor cannot be a transform of one image to one tensor, by its class. */
export const REFUSED_CLASSES: readonly (readonly [RegExp, string])[] = [
  [/^Siglip2$/, 'NaFlex processors give a sequence of patches whose length depends on the image'],
  [/^(VideoMAE|Vivit|Video|Timesformer|Tvlt|Tvp)|Video$/, 'it is for videos: its result has a time axis'],
  [
    /^(Qwen|Pixtral|Idefics|LlavaNext|LlavaOnevision|Phi|Mllama|Gemma3|Aria|SmolVLM|NaViT|Emu3)/,
    'the size of its result depends on the image',
  ],
];
