/** The checks of a transform's options. */
import { checkInteger, checkNumber, checkOneOf, invalidOption } from '../../base/checks.js';
import { DECODE_MODES } from '../decode/decode-options.js';
import type { ResizeTarget, Size } from '../pixels/geometry.js';
import { INTERPOLATIONS, type Interpolation } from '../resample/kernel.js';
import type { Colour } from '../resample/resample.js';
import type { ChannelNumbers, TransformOptions } from './transform-options.js';

const MAX_SIDE = 65_536;

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
    decode: checkOneOf('decode', options.decode, DECODE_MODES),
    limitPixels: checkInteger('limitPixels', options.limitPixels, 1, 2 ** 31 - 1),
    resize: checkResize(options.resize),
    crop: checkSize('crop', options.crop),
    cropOffset: checkOneOf('cropOffset', options.cropOffset, ['round', 'trunc', 'floor']),
    fill: checkFill(options.fill),
    channelOrder,
    layout: checkOneOf('layout', options.layout, ['nchw', 'nhwc']),
    interpolation: checkOneOf('interpolation', options.interpolation, INTERPOLATIONS),
    resampler: checkOneOf('resampler', options.resampler, RESAMPLERS),
  };
  checkTogether(checked);
  return Object.freeze(checked);
}

const RESAMPLED: Readonly<Record<TransformOptions['resampler'], readonly Interpolation[]>> = {
  pillow: INTERPOLATIONS,
  'pillow-13': INTERPOLATIONS,
  torch: ['nearest', 'bilinear', 'bicubic', 'lanczos'],
  'torch-float': ['bilinear'],
};

const RESAMPLERS = Object.keys(RESAMPLED) as TransformOptions['resampler'][];

function checkTogether({ mean, std, interpolation, resampler, decode }: TransformOptions): void {
  if ((mean === null) !== (std === null))
    throw invalidOption('std', 'null where mean is null, and only there', std);
  const kinds = RESAMPLED[resampler];
  if (!kinds.includes(interpolation)) {
    const words = kinds.map((kind) => `"${kind}"`).join(', ');
    throw invalidOption('interpolation', `${words} with resampler "${resampler}"`, interpolation);
  }
  if (resampler === 'torch-float' && decode !== 'exact')
    throw invalidOption('decode', '"exact" with resampler "torch-float"', decode);
}

function checkScale(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < Infinity) return value;
  throw invalidOption('scale', 'a finite number above 0', value);
}

function checkResize(value: unknown): ResizeTarget {
  if (typeof value !== 'object' || value === null) return checkSize('resize', value);
  if ('shortest' in value && 'longest' in value) {
    const shortest = checkInteger('resize.shortest', value.shortest, 1, MAX_SIDE);
    return Object.freeze({
      shortest,
      longest: checkInteger('resize.longest', value.longest, shortest, MAX_SIDE),
    });
  }
  const size = checkSize('resize', value);
  if (!('fit' in value)) return size;
  const fit = checkOneOf('resize.fit', value.fit, ['inside', 'outside']);
  return Object.freeze({ fit, ...(size as Size) });
}

function checkSize(option: string, value: unknown): number | Size | null {
  if (value === null) return null;
  const sides = readSides(option, value);
  if (sides) return sides;
  if (typeof value !== 'number')
    throw invalidOption(option, 'a number of pixels, { height, width } or null', value);
  return checkInteger(option, value, 1, MAX_SIDE);
}

/** Checks both sides; undefined for what is no object of them. */
export function readSides(option: string, value: unknown): Size | undefined {
  if (typeof value !== 'object' || value === null || !('height' in value && 'width' in value))
    return undefined;
  const height = checkInteger(`${option}.height`, value.height, 1, MAX_SIDE);
  const width = checkInteger(`${option}.width`, value.width, 1, MAX_SIDE);
  return Object.freeze({ height, width });
}

function checkFill(value: unknown): number | Colour {
  if (!Array.isArray(value)) return checkInteger('fill', value, 0, 255);
  if (value.length !== 3) throw invalidOption('fill', 'a number from 0 to 255, or three', value);
  const [red, green, blue] = value.map((channel) => checkInteger('fill', channel, 0, 255));
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
