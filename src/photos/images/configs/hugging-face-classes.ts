/** The image processors of transformers (5.24) whose arithmetic is known, with their defaults. */
import { IMAGENET_MEAN, IMAGENET_STD } from '../../../base/imagenet.js';
import type { PatchOptions } from '../patches/patch-processors.js';
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
  /** Null if the class has none. */
  readonly mean: Channels | null;
  readonly std: Channels | null;
  /** Whether it normalises unless the file says otherwise. @default true */
  readonly normalizes?: boolean;
  /** Whether it ignores a request to crop. */
  readonly neverCrops?: boolean;
  /** Whether it has no class for Pillow, so that its arithmetic is torchvision's. */
  readonly isTorchOnly?: boolean;
  /** Fields that change what it gives beside the pixels, such as masks, labels and words. */
  readonly aside?: RegExp;
  /** Fields that must be false or left out, and why. */
  readonly never?: Readonly<Record<string, string>>;
  /** What it does otherwise than the plain steps. */
  readonly special?:
    | 'crop_pct'
    | 'crop_pct below 384'
    | '256/224'
    | 'bgr'
    | 'include_top'
    | 'float'
    | 'longest edge'
    | 'crops first'
    | 'thumbnail'
    | 'multiple'
    | PatchOptions['processor'];
  /** Whether `size` alone tells its limits, not `min_pixels` and `max_pixels`. */
  readonly ignoresLimits?: boolean;
  /** Default of `crop_pct`. */
  readonly share?: number;
}

/** A class with the bits of another one. */
export interface LikeClass {
  /** The name of that class. */
  readonly like: string;
  /** The `model_type`s that it belongs to. */
  readonly models: readonly string[];
  /** Its defaults, by the names of its configuration. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether it has no class for Pillow. */
  readonly isTorchOnly?: boolean;
  /** Fields of its own that change no pixels. */
  readonly free?: readonly string[];
  /** Fields that must have these values: with others it differs, or nobody has tried. */
  readonly only?: Readonly<Record<string, unknown>>;
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

const DPT: ProcessorClass = {
  ...PLAIN,
  size: square(384),
  resample: BICUBIC,
  special: 'multiple',
  never: { do_pad: 'it pads to a multiple of size_divisor, with other sides for each backend' },
};

/** By the class's name without `ImageProcessor`, `FeatureExtractor` and `Fast`. */
export const PROCESSOR_CLASSES: Readonly<Record<string, ProcessorClass>> = {
  CLIP,
  ChineseCLIP: CLIP,
  Bit: CLIP,
  Siglip: { ...PLAIN, size: square(224), isSquare: false, resample: BICUBIC },
  ViT: { ...PLAIN, size: square(224), resample: BILINEAR },
  Pvt: { ...PLAIN, ...IMAGENET, size: square(224), resample: BICUBIC },
  Segformer: { ...PLAIN, ...IMAGENET, size: square(512), resample: BILINEAR, neverCrops: true },
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
  Tipsv2: {
    ...PLAIN,
    size: square(448),
    resample: BILINEAR,
    mean: null,
    std: null,
    normalizes: false,
    isTorchOnly: true,
  },
  Sam: {
    ...PLAIN,
    ...IMAGENET,
    size: { longest_edge: 1024 },
    resample: BILINEAR,
    special: 'longest edge',
    aside: /^mask_/,
  },
  Sam2: { ...PLAIN, ...IMAGENET, size: square(1024), resample: BILINEAR, isTorchOnly: true, aside: /^mask_/ },
  Sam3: { ...PLAIN, size: square(1008), resample: BILINEAR, isTorchOnly: true, aside: /^mask_/ },
  OwlViT: { ...PLAIN, size: square(768), crop: 768, resample: BICUBIC, mean: CLIP_MEAN, std: CLIP_STD },
  RTDetr: {
    ...PLAIN,
    ...IMAGENET,
    size: square(640),
    isSquare: false,
    resample: BILINEAR,
    normalizes: false,
    aside: /annotations$|^format$/,
    neverCrops: true,
  },
  Gemma3: {
    ...PLAIN,
    size: square(224),
    resample: BILINEAR,
    aside: /^pan_and_scan_|^image_seq/,
    neverCrops: true,
    never: { do_pan_and_scan: 'it cuts photos into tiles, whose number depends on the photo' },
  },
  Sapiens2: {
    ...PLAIN,
    ...IMAGENET,
    size: { height: 1024, width: 768 },
    crop: 224,
    resample: BILINEAR,
    isTorchOnly: true,
    aside: /^keypoint_/,
    never: { do_pad: 'it keeps the ratio and pads, with another rounding' },
  },
  Flava: {
    ...PLAIN,
    size: square(224),
    crop: 224,
    crops: true,
    resample: BICUBIC,
    mean: CLIP_MEAN,
    std: CLIP_STD,
    aside: /^codebook_|mask|^input_size_patches$/,
  },
  LayoutLMv3: { ...PLAIN, size: square(224), resample: BILINEAR, aside: /^apply_ocr$|^ocr_|^tesseract/ },
  DPT,
  PromptDepthAnything: { ...DPT, neverCrops: true, aside: /^prompt_/ },
  Perceiver: {
    ...PLAIN,
    ...IMAGENET,
    size: square(224),
    crop: 256,
    crops: true,
    resample: BICUBIC,
    special: 'crops first',
  },
  Donut: {
    ...PLAIN,
    size: { height: 2560, width: 1920 },
    resample: BILINEAR,
    special: 'thumbnail',
    never: { do_align_long_axis: 'it turns photos by their sides' },
  },
  Siglip2: { ...PLAIN, size: {}, resample: BILINEAR, special: 'naflex' },
  Qwen2VL: {
    ...PLAIN,
    size: { shortest_edge: 56 * 56, longest_edge: 28 * 28 * 1280 },
    resample: BICUBIC,
    mean: CLIP_MEAN,
    std: CLIP_STD,
    special: 'qwen2-vl',
  },
  Glm4v: {
    ...PLAIN,
    size: { shortest_edge: 112 * 112, longest_edge: 28 * 28 * 15_000 },
    resample: BICUBIC,
    mean: CLIP_MEAN,
    std: CLIP_STD,
    special: 'glm-4v',
    ignoresLimits: true,
  },
};

/** The class of a nameless processor, by the model's type in `config.json`, as transformers' AutoImageProcessor chooses it. */
export const CLASS_OF_MODEL: Readonly<Record<string, string>> = {
  aimv2: 'CLIP', aimv2_vision_model: 'CLIP', altclip: 'CLIP', beit: 'Beit', bit: 'Bit', blip: 'Blip', 'blip-2': 'Blip',
  chinese_clip: 'ChineseCLIP', clip: 'CLIP', clip_vision_model: 'CLIP', clipseg: 'ViT', colqwen2: 'Qwen2VL', convnext: 'ConvNext', convnextv2: 'ConvNext',
  cvt: 'ConvNext', 'data2vec-vision': 'Beit', deimv2: 'RTDetr', deit: 'DeiT', depth_anything: 'DPT', dinat: 'ViT', dinov2: 'Bit',
  dinov3_vit: 'DINOv3ViT', 'donut-swin': 'Donut', dpt: 'DPT', edgetam: 'Sam2', efficientnet: 'EfficientNet', flava: 'Flava',
  focalnet: 'Bit', gemma3: 'Gemma3', git: 'CLIP', glm4v: 'Glm4v', groupvit: 'CLIP', hiera: 'Bit', ijepa: 'ViT', layoutlmv3: 'LayoutLMv3', levit: 'Levit',
  metaclip_2: 'CLIP', 'mgp-str': 'ViT', mlcd: 'CLIP', mobilenet_v1: 'MobileNetV1', mobilenet_v2: 'MobileNetV2', mobilevit: 'MobileViT', mobilevitv2: 'MobileViT',
  owlvit: 'OwlViT', perceiver: 'Perceiver', pixio: 'Bit', poolformer: 'PoolFormer', prompt_depth_anything: 'PromptDepthAnything', pvt: 'Pvt', pvt_v2: 'Pvt', qwen2_5_vl: 'Qwen2VL', qwen2_vl: 'Qwen2VL', qwen3_vl: 'Qwen2VL', regnet: 'ConvNext', resnet: 'ConvNext', rt_detr: 'RTDetr', sam: 'Sam', sam2: 'Sam2', sam2_video: 'Sam2',
  sam3: 'Sam3', sam3_tracker: 'Sam3', sam_hq: 'Sam', sapiens2: 'Sapiens2', segformer: 'Segformer', siglip: 'Siglip', siglip2: 'Siglip2',
  siglip_vision_model: 'Siglip', swiftformer: 'ViT', swin: 'ViT', swinv2: 'ViT', tipsv2: 'Tipsv2', trocr: 'ViT', udop: 'LayoutLMv3', van: 'ConvNext', vit: 'ViT', vit_mae: 'ViT',
  vit_msn: 'ViT', xclip: 'CLIP',
}; // prettier-ignore

/** Why a processor cannot be a transform of one image to one tensor, by its class. */
export const REFUSED_CLASSES: readonly (readonly [RegExp, string])[] = [
  [/^(VideoMAE|Vivit|Video|Timesformer|Tvlt|Tvp)|Video$/, 'it is for videos: its result has a time axis'],
  [
    /^(Pixtral|Idefics|LlavaNext|LlavaOnevision|Phi|Mllama|Gemma4|Aria|SmolVLM|NaViT|Emu3)/,
    'the size of its result depends on the image',
  ],
  [
    /^Owlv2$/,
    'it blurs floats before the resize, and the last bits of that depend on how torch sums on a CPU',
  ],
];
