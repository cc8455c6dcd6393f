/** The checks of a transform's options. */
import {
  checkBoolean,
  checkInteger,
  checkNumber,
  checkOneOf,
  invalidOption,
  isPlainObject,
} from '../../../base/checks.js';
import { CROPS } from '../pixels/crops.js';
import { DECODE_MODES } from '../decode/decode-options.js';
import { CROP_OFFSETS, type ResizeTarget, type Size } from '../pixels/geometry.js';
import { checkPatches } from '../patches/check-patches.js';
import { INTERPOLATIONS, type Interpolation } from '../resample/kernel.js';
import type { Colour } from '../resample/resample.js';
import type { ChannelNumbers, FirstStep, TransformOptions } from './transform-options.js';

const MAX_SIDE = 65_536;

/** Refuses a transform that makes several rows of a photo. Throws `OPTION_INVALID`, which says where. */
export function checkOneRow({ crops }: TransformOptions, where: string): void {
  if (crops !== 'center') throw invalidOption('crops', `"center" ${where}`, crops);
}

/** Checks options and returns a frozen deep copy: the caller may change its arrays and objects afterwards. Throws `OPTION_INVALID`. */
export function checkTransform(options: TransformOptions): TransformOptions {
  const channelOrder = checkOneOf('channelOrder', options.channelOrder, ['rgb', 'bgr', 'grey']);
  const numbers = (name: 'mean' | 'std' | 'secondStd'): ChannelNumbers | null =>
    checkChannels(name, options[name], channelOrder === 'grey' ? 1 : 3);
  const checked: TransformOptions = {
    mean: numbers('mean'),
    std: numbers('std'),
    secondStd: numbers('secondStd'),
    scale: checkScale(options.scale),
    offset: checkNumber('offset', options.offset, -Infinity),
    arithmetic: checkOneOf('arithmetic', options.arithmetic, ['torchvision', 'transformers', 'fused']),
    orientation: checkOneOf('orientation', options.orientation, ['ignore', 'exif']),
    alpha: checkOneOf('alpha', options.alpha, ['drop', 'white']),
    decode: checkOneOf('decode', options.decode, DECODE_MODES),
    limitPixels: checkInteger('limitPixels', options.limitPixels, 1, 2 ** 31 - 1),
    first: checkFirst(options.first),
    resize: checkResize('resize', options.resize),
    crop: checkSize('crop', options.crop),
    crops: checkOneOf('crops', options.crops, CROPS),
    cropOffset: checkOneOf('cropOffset', options.cropOffset, CROP_OFFSETS),
    cropPlace: checkOneOf('cropPlace', options.cropPlace, ['center', 'start']),
    patches: options.patches === null ? null : checkPatches(options.patches),
    fill: options.fill === null ? null : checkColour('fill', options.fill, ', or null'),
    channelOrder,
    layout: checkOneOf('layout', options.layout, ['nchw', 'nhwc']),
    interpolation: checkOneOf('interpolation', options.interpolation, INTERPOLATIONS),
    resampler: checkOneOf('resampler', options.resampler, RESAMPLERS),
    antialias: checkBoolean('antialias', options.antialias),
  };
  checkTogether(checked);
  checkWithPatches(checked);
  return Object.freeze(checked);
}

const RESAMPLED: Readonly<Record<TransformOptions['resampler'], readonly Interpolation[]>> = {
  pillow: INTERPOLATIONS,
  'pillow-13': INTERPOLATIONS,
  torch: ['nearest', 'bilinear', 'bicubic', 'lanczos'],
  'torch-float': ['bilinear'],
};

const RESAMPLERS = Object.keys(RESAMPLED) as TransformOptions['resampler'][];

function checkTogether(options: TransformOptions): void {
  const { mean, std, interpolation, resampler, antialias, decode, fill } = options;
  const { first, crop, crops, cropPlace } = options;
  if ((mean === null) !== (std === null))
    throw invalidOption('std', 'null where mean is null, and only there', std);
  const kinds = RESAMPLED[resampler];
  if (!kinds.includes(interpolation)) {
    const words = kinds.map((kind) => `"${kind}"`).join(', ');
    throw invalidOption('interpolation', `${words} with resampler "${resampler}"`, interpolation);
  }
  const isPlain = resampler === 'torch' && (interpolation === 'bilinear' || interpolation === 'nearest');
  if (!antialias && !isPlain)
    throw invalidOption(
      'antialias',
      'true, unless with resampler "torch" and "bilinear" or "nearest"',
      antialias,
    );
  if (resampler === 'torch-float' && decode !== 'exact')
    throw invalidOption('decode', '"exact" with resampler "torch-float"', decode);
  if (crops !== 'center' && crop === null) throw invalidOption('crop', `a size with crops "${crops}"`, crop);
  if (crops !== 'center' && cropPlace !== 'center')
    throw invalidOption('cropPlace', `"center" with crops "${crops}"`, cropPlace);
  if (first !== null && decode !== 'exact') throw invalidOption('decode', '"exact" with "first"', decode);
  if (resampler === 'torch-float' && (fill === null || first !== null))
    throw invalidOption('resampler', 'another than "torch-float" with "first" or fill: null', resampler);
}

/** What comes with patches: they decide the size, and bytes with three channels are cut. */
function checkWithPatches({
  patches,
  resize,
  crop,
  first,
  fill,
  resampler,
  channelOrder,
}: TransformOptions): void {
  if (patches === null) return;
  const others = { resize, crop, first };
  for (const [option, value] of Object.entries(others))
    if (value !== null) throw invalidOption(option, 'null with patches, which decide the size', value);
  if (channelOrder === 'grey')
    throw invalidOption('channelOrder', '"rgb" or "bgr" with patches', channelOrder);
  if (resampler === 'torch-float')
    throw invalidOption('resampler', 'another than "torch-float" with patches', resampler);
  if (fill === null) throw invalidOption('fill', 'a colour with patches', fill);
}

function checkFirst(value: unknown): FirstStep | null {
  if (value === null) return null;
  const { resize, crop, ...more } = isPlainObject(value) ? value : { more: value };
  const isAlone = Object.keys(more).length === 0 && (resize === undefined) !== (crop === undefined);
  if (isAlone && resize !== undefined) return Object.freeze({ resize: checkResize('first.resize', resize) });
  if (!isAlone || !isPlainObject(crop) || Object.keys(crop).toSorted().join() !== 'height,width')
    throw invalidOption('first', '{ crop: { height, width } }, { resize } or null', value);
  const share = (side: 'height' | 'width'): number => {
    const part = crop[side];
    if (typeof part === 'number' && part > 0 && part <= 1) return part;
    throw invalidOption(`first.crop.${side}`, 'a share above 0, at most 1', part);
  };
  return Object.freeze({ crop: Object.freeze({ height: share('height'), width: share('width') }) });
}

function checkScale(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < Infinity) return value;
  throw invalidOption('scale', 'a finite number above 0', value);
}

const FITS = ['inside', 'outside', 'thumbnail', 'nearest'] as const;
const RESIZE_FORMS =
  'a number of pixels, { height, width } (also with fit), { longest } (also with shortest), { multiple } (also with one of height, shortest and longest), or null';
/** The names of each form of a resize that is an object. */
const RESIZES = [
  ['height', 'width'],
  ['fit', 'height', 'width'],
  ['fit', 'height', 'multiple', 'width'],
  ['longest'],
  ['longest', 'shortest'],
  ['multiple'],
  ['height', 'multiple'],
  ['multiple', 'shortest'],
  ['longest', 'multiple'],
];

function checkResize(option: string, value: unknown): ResizeTarget {
  if (typeof value !== 'object' || value === null) return checkSize(option, value);
  const given = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(given).toSorted().join();
  if (!RESIZES.some((form) => form.join() === names)) throw invalidOption(option, RESIZE_FORMS, value);
  const isFit = 'fit' in given;
  const fits = 'multiple' in given ? (['nearest'] as const) : FITS;
  if (isFit) checkOneOf(`${option}.fit`, given['fit'], fits);
  const check = (name: string, least: number): number =>
    checkInteger(`${option}.${name}`, given[name], least, MAX_SIDE);
  const multiple = 'multiple' in given ? check('multiple', 1) : 1;
  const shortest = 'shortest' in given ? check('shortest', multiple) : multiple;
  if ('longest' in given) check('longest', shortest);
  for (const side of ['height', 'width']) if (side in given) check(side, isFit ? 1 : multiple);
  // One of the forms.
  return Object.freeze({ ...given }) as unknown as ResizeTarget;
}

function checkSize(option: string, value: unknown): number | Size | null {
  if (value === null) return null;
  if (typeof value === 'number') return checkInteger(option, value, 1, MAX_SIDE);
  const sides = readSides(option, value);
  if (sides) return sides;
  throw invalidOption(option, 'a number of pixels, { height, width } or null', value);
}

/** Checks both sides; undefined for what is no object of them, and nothing else. */
export function readSides(
  option: string,
  value: unknown,
  least = 1,
  most: number = MAX_SIDE,
): Size | undefined {
  if (typeof value !== 'object' || value === null || !('height' in value && 'width' in value))
    return undefined;
  if (Object.keys(value).length > 2) return undefined;
  const height = checkInteger(`${option}.height`, value.height, least, most);
  return Object.freeze({ height, width: checkInteger(`${option}.width`, value.width, least, most) });
}

/** Checks a colour: a number, or three. */
export function checkColour(option: string, value: unknown, orNull = ''): number | Colour {
  if (!Array.isArray(value)) return checkInteger(option, value, 0, 255);
  if (value.length !== 3)
    throw invalidOption(option, `a number from 0 to 255, or three of them${orNull}`, value);
  const [red, green, blue] = value.map((channel) => checkInteger(option, channel, 0, 255));
  return Object.freeze([red!, green!, blue!] as const);
}

function checkChannels(
  option: 'mean' | 'std' | 'secondStd',
  value: unknown,
  channels: 1 | 3,
): ChannelNumbers | null {
  if (value === null) return null;
  const isFit = (item: unknown): boolean =>
    typeof item === 'number' && Number.isFinite(item) && (option === 'mean' || Math.fround(item) !== 0);
  if (Array.isArray(value) && value.length === channels && value.every(isFit))
    return Object.freeze([...(value as unknown as ChannelNumbers)]) as ChannelNumbers;
  const count = channels === 1 ? 'one finite number' : 'three finite numbers';
  throw invalidOption(option, `${count}${option === 'mean' ? '' : ' other than 0'}, or null`, value);
}
