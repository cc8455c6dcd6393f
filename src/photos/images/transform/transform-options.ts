/** The options of a transform, and their values by preset name. */
import { isPlainObject } from '../../../base/checks.js';
import { IMAGENET_MEAN, IMAGENET_STD } from '../../../base/imagenet.js';
import type { DecodeOptions } from '../decode/decode-options.js';
import type { Crops } from '../pixels/crops.js';
import type { CropOffset, CropPlace, ResizeTarget, Size } from '../pixels/geometry.js';
import type { PatchOptions } from '../patches/patch-processors.js';
import type { Interpolation } from '../resample/kernel.js';
import type { Colour } from '../resample/resample.js';

/** A number per channel: red, green, blue, in this order even where the model takes blue first; or one for grey. */
export type ChannelNumbers = readonly [number, number, number] | readonly [number];

/** A step before the resize: a crop from the centre, as shares of the shorter side (Perceiver), or another resize (Donut). */
export type FirstStep =
  { readonly crop: { readonly height: number; readonly width: number } } | { readonly resize: ResizeTarget };

/** Every option of a transform. */
export interface TransformOptions extends DecodeOptions {
  /**
   * A step before the resize: `{ crop: { height, width } }` cuts shares of the shorter side from the centre, rounded down, `{ resize }`
   * resizes; null does neither.
   * @default null
   */
  readonly first: FirstStep | null;
  /**
   * A number resizes the shorter side to this many pixels and keeps the aspect ratio. `{ height, width }` sets both sides.
   * `{ shortest, longest }` resizes the shorter side unless the longer one would pass its limit; `{ longest }` resizes the longer side.
   * `{ fit, height, width }` keeps the aspect ratio: inside or outside a size, only smaller (`thumbnail`), or by the side that changes the
   * image less (`nearest`). `nearest` rounds both sides to a `multiple`, if one is given. `{ height, multiple }`, `{ shortest, multiple }`
   * and `{ longest, multiple }` keep the ratio in whole multiples of a patch, rounded down. `{ multiple }` does so with the image's own
   * size. null keeps the image's size.
   * @default 256
   */
  readonly resize: ResizeTarget;
  /**
   * Interpolation of the resize.
   * @default 'bilinear'
   */
  readonly interpolation: Interpolation;
  /**
   * `true`: a pixel of a smaller image is the mean of all pixels that it covers, as in Pillow. `false`: it is mixed of the four pixels
   * about its place, as torchvision does with frames of videos. That needs the resampler `torch`, and `bilinear` or `nearest`.
   * @default true
   */
  readonly antialias: boolean;
  /**
   * Whose arithmetic the resize has. Pillow's comes with the order of passes of 12 and before, or of 13. Version 13 takes the vertical pass
   * first where an image loses more than twice as many rows as columns (a tall photo that becomes a square). Torch's is that for uint8
   * tensors (`bilinear`, `bicubic`, `nearest`), or that for float tensors (`bilinear`), which scales first, as DINOv3 of transformers does.
   * @default 'pillow'
   */
  readonly resampler: 'pillow' | 'pillow-13' | 'torch' | 'torch-float';
  /**
   * Size of the region to cut from the centre; a number means a square, null keeps everything. A smaller image is padded with
   * `fill`.
   * @default 224
   */
  readonly crop: number | Size | null;
  /**
   * Which crops of the resized image become rows. `center` is the one in the centre. `five` are those of the four corners (top left, top
   * right, bottom left, bottom right) and the centre. `ten` adds the five of the image mirrored left to right; `ten-vertical`, mirrored top
   * to bottom. As FiveCrop and TenCrop of torchvision; an image that is smaller than a crop is refused (`IMAGE_MISFIT`).
   * @default 'center'
   */
  readonly crops: Crops;
  /**
   * How half a pixel at the edge of a crop is rounded: half to even (`round`, torchvision), `trunc` or `floor` (transformers with
   * torchvision or Pillow), or `ceil` (Donut).
   * @default 'round'
   */
  readonly cropOffset: CropOffset;
  /**
   * Where the crop lies: in the centre, or at the top left corner (`start`), where only the right and the bottom are padded.
   * @default 'center'
   */
  readonly cropPlace: CropPlace;
  /**
   * Cuts the photo into patches instead. The result is several tensors, whose sizes follow the photo. {@link transformFromConfig} reads it
   * for NaFlex of SigLIP 2 (`naflex`), for the Qwen-VL models (`qwen2-vl`) and for GLM-4V (`glm-4v`). Needs `resize: null` and
   * `crop: null`, and no grey.
   * @default null
   */
  readonly patches: PatchOptions | null;
  /**
   * Colour of padding, 0 to 255: one number, or red, green and blue. Null pads the normalised tensor with zeros, as SAM does.
   * @default 0
   */
  readonly fill: number | Colour | null;
  /**
   * Channels that the model takes. `grey` is Pillow's `convert("L")`, before the resize.
   * @default 'rgb'
   */
  readonly channelOrder: 'rgb' | 'bgr' | 'grey';
  /**
   * Axes of the tensor: channels before or after the pixels. `embedFolder` and the like follow the model's input instead.
   * @default 'nchw'
   */
  readonly layout: 'nchw' | 'nhwc';
  /**
   * Factor of the bytes: 1/255 gives values from 0 to 1, and 1 leaves 0 to 255.
   * @default 1/255
   */
  readonly scale: number;
  /**
   * Subtracted from the scaled values.
   * @default 0
   */
  readonly offset: number;
  /**
   * Mean per channel of the result, subtracted from the scaled values; null subtracts nothing.
   * @default [0.485, 0.456, 0.406]
   */
  readonly mean: ChannelNumbers | null;
  /**
   * Standard deviation per channel of the result, the divisor after the mean is subtracted; not 0. Null with `mean: null`.
   * @default [0.229, 0.224, 0.225]
   */
  readonly std: ChannelNumbers | null;
  /**
   * Divides once more, as EfficientNet's `include_top` does in transformers; null does not.
   * @default null
   */
  readonly secondStd: ChannelNumbers | null;
  /**
   * How scaling and normalising are rounded to float32. `torchvision` rounds each step. `transformers` scales in double precision. `fused`
   * has scale, mean and std in one step, as transformers with torchvision.
   * @default 'torchvision'
   */
  readonly arithmetic: 'torchvision' | 'transformers' | 'fused';
}

/**
 * Transforms by name: those of torchvision's `IMAGENET1K_V1` and `IMAGENET1K_V2` weights, bicubic interpolation with ImageNet's
 * numbers, and a plain resize of both sides.
 */
export type TransformPreset = 'ImageNet1K_V1' | 'ImageNet1K_V2' | 'Bicubic256' | 'Squash224';

const IMAGENET = {
  mean: IMAGENET_MEAN,
  std: IMAGENET_STD,
  secondStd: null,
  scale: 1 / 255,
  offset: 0,
  arithmetic: 'torchvision',
  resampler: 'pillow',
  antialias: true,
  first: null,
  crops: 'center',
  cropOffset: 'round',
  cropPlace: 'center',
  patches: null,
  fill: 0,
  channelOrder: 'rgb',
  layout: 'nchw',
  orientation: 'ignore',
  alpha: 'drop',
  decode: 'exact',
  // Pillow raises an error beyond this limit, which is twice the one for its warning.
  limitPixels: 178_956_970,
} as const;
const CROP = { height: 224, width: 224 };

export const TRANSFORM_PRESETS: Readonly<Record<TransformPreset, TransformOptions>> = {
  ImageNet1K_V1: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bilinear' },
  ImageNet1K_V2: { ...IMAGENET, resize: 232, crop: CROP, interpolation: 'bilinear' },
  Bicubic256: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bicubic' },
  Squash224: { ...IMAGENET, resize: CROP, crop: null, interpolation: 'bilinear' },
};

/** The value of an option in its shortest spelling: a square crop has two. */
export function shortestValue(name: string, value: unknown): unknown {
  if (name !== 'crop' || !isPlainObject(value)) return value;
  return value['height'] === value['width'] ? value['height'] : value;
}
