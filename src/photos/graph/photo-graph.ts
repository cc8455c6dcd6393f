/** A transform as nodes: a decoded photo to the tensor that a model takes, with the bits of {@link Transform}. */
import { TapirError } from '../../base/errors.js';
import { ELEMENT_TYPE } from '../../onnx/file/wire/schema.js';
import type { NodeBuilder } from '../../onnx/graph/rewrite/node-builder.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import type { ImageType } from '../../onnx/tensor/image-feed.js';
import { isFixedSize, type ResizeTarget, type Size } from '../images/pixels/geometry.js';
import type { Sampling } from '../images/resample/kernel.js';
import type { TransformOptions } from '../images/transform/transform-options.js';
import { valuesOf, type Transform } from '../images/transform/transform.js';
import { Formula, type Name } from './formula.js';
import { resampleFormula, type Pixels } from './passes.js';
import { cropFormula, sizeFormula, visibleFormula, type Place } from './sizes.js';

/** What a model takes. */
export interface PixelTarget {
  readonly dtype: ImageType;
  readonly isLast: boolean;
}

const RGB = 3;
/** Pillow's weights of the three channels in grey, of 65,536. */
const LUMA = [19_595, 38_470, 7471] as const;

/**
 * Refuses a transform that standard operators do not compute exactly, or that gives something else than one tensor of one picture. Throws
 * `TRANSFORM_UNSUPPORTED`.
 */
export function checkPhotoGraph({ options }: Transform): void {
  const { resampler, patches, crops } = options;
  if (resampler === 'torch-float')
    throw unsupported(
      'resampler',
      'torch adds floats in the order of its machine code, which operators of ONNX do not promise: "torch-float"',
    );
  if (patches !== null)
    throw unsupported(
      'patches',
      `it gives several tensors, whose sizes follow the photo: "${patches.processor}"`,
    );
  if (crops !== 'center') throw unsupported('crops', `it gives several rows of a photo: "${crops}"`);
}

function unsupported(field: string, reason: string): TapirError<'TRANSFORM_UNSUPPORTED'> {
  return new TapirError(
    'TRANSFORM_UNSUPPORTED',
    `the pixels cannot be in the file: ${field}: ${reason}; use input "tensor" and prepare photos outside of the graph`,
    { details: { field, reason } },
  );
}

/** Adds the nodes of a transform: from photos, uint8 `[batch, height, width, 3]` or without the batch, to the tensor `last`. */
export function addPhotoGraph(
  nodes: NodeBuilder,
  transform: Transform,
  target: PixelTarget,
  { photo, hasBatch, last }: { readonly photo: Name; readonly hasBatch: boolean; readonly last: Name },
): void {
  const g = new Formula(nodes);
  const { options } = transform;
  const data = hasBatch ? photo : g.unsqueeze(photo, [0]);
  const shape = g.op('Shape', [data]);
  const decoded: Pixels = {
    data,
    photos: g.at(shape, 0),
    height: g.at(shape, 1),
    width: g.at(shape, 2),
    channels: RGB,
  };
  const image = takeFirst(g, options.channelOrder === 'grey' ? toGrey(g, decoded) : decoded, options);
  const size = sizeFormula(g, image, options.resize);
  const crop = options.crop === null ? null : sidesOf(g, options.crop);
  const region = cropFormula(g, size, crop, options.cropOffset, options.cropPlace);
  const part = visibleFormula(g, size, region);
  const down = { inSize: image.height, outSize: size.height, from: part.top, to: part.bottom };
  const across = { inSize: image.width, outSize: size.width, from: part.left, to: part.right };
  const pixels =
    options.resize === null
      ? cutWhole(g, image, part)
      : resampleFormula(g, image, down, across, samplingOf(options));
  const isFloat = options.fill === null && !transform.givesBytes;
  const pads = neverPads(options) ? undefined : padsOf(g, region, part, isFloat);
  const padded = pads && !isFloat ? padWith(g, pixels, pads, options.fill ?? 0, image.channels) : pixels;
  const planes = g.transpose(padded, [3, 0, 1, 2]);
  const ordered = options.channelOrder === 'bgr' ? g.gather(planes, g.int([2, 1, 0]), 0) : planes;
  const values = valueNodes(g, ordered, transform, target);
  const tensor = pads && isFloat ? g.op('Pad', [values, pads]) : values;
  const laidOut = g.transpose(tensor, target.isLast ? [1, 2, 3, 0] : [1, 0, 2, 3]);
  // The sizes are stated for what reads them.
  const { outputSize, channels } = transform;
  const { height, width } = outputSize ?? { height: region.height, width: region.width };
  const sizes = target.isLast ? [height, width, channels] : [channels, height, width];
  nodes.add('Reshape', [laidOut, g.list([hasBatch ? -1 : 1, ...sizes])], {}, last);
}

function sidesOf(g: Formula, size: number | Size): { readonly height: Name; readonly width: Name } {
  const { height, width } = typeof size === 'number' ? { height: size, width: size } : size;
  return { height: g.int(height), width: g.int(width) };
}

function samplingOf({ interpolation, antialias, resampler }: TransformOptions): Sampling {
  return { interpolation, antialias, resampler: resampler === 'torch-float' ? 'pillow' : resampler };
}

/** Pillow's `convert("L")`: float32 holds the sums exactly. */
function toGrey(g: Formula, image: Pixels): Pixels {
  const weights = g.nodes.floats(
    [RGB, 1],
    LUMA.map((weight) => weight / 65_536),
  );
  const sums = g.op('MatMul', [g.cast(image.data, 'float32'), weights]);
  const data = g.cast(g.floor(g.add(sums, g.float32(0.5))), 'uint8');
  return { ...image, data, channels: 1 };
}

/** The image after the first step: see `images/transform/first-step.ts`. */
function takeFirst(g: Formula, image: Pixels, options: TransformOptions): Pixels {
  const { first, cropOffset } = options;
  if (first === null) return image;
  if ('resize' in first) {
    const size = sizeFormula(g, image, first.resize);
    const axis = (inSize: Name, outSize: Name) => ({ inSize, outSize, from: g.int(0), to: outSize });
    const [down, across] = [axis(image.height, size.height), axis(image.width, size.width)];
    const bytes = g.cast(resampleFormula(g, image, down, across, samplingOf(options)), 'uint8');
    return { ...image, ...size, data: bytes };
  }
  const side = g.cast(g.min(image.height, image.width), 'float64');
  const sideOf = (share: number): Name => g.max(g.floorToInt(g.mul(g.float64(share), side)), g.int(1));
  const size = { height: sideOf(first.crop.height), width: sideOf(first.crop.width) };
  const region = cropFormula(g, image, size, cropOffset, 'center');
  const data = g.slice(image.data, [
    { axis: 1, from: region.top, to: g.add(region.top, size.height) },
    { axis: 2, from: region.left, to: g.add(region.left, size.width) },
  ]);
  return { ...image, ...size, data };
}

/** Pixels of an image that keeps its size. */
function cutWhole(g: Formula, { data }: Pixels, part: ReturnType<typeof visibleFormula>): Name {
  const cut = g.slice(data, [
    { axis: 1, from: part.top, to: part.bottom },
    { axis: 2, from: part.left, to: part.right },
  ]);
  return g.cast(cut, 'float32');
}

/** Whether no photo is smaller than the crop. */
function neverPads({ resize, crop }: TransformOptions): boolean {
  if (crop === null) return true;
  const wanted = typeof crop === 'number' ? { height: crop, width: crop } : crop;
  const least = leastSize(resize);
  return least !== null && least.height >= wanted.height && least.width >= wanted.width;
}

/** The smallest sides that a resize gives, where they are plain. */
function leastSize(resize: ResizeTarget): Size | null {
  if (typeof resize === 'number') return { height: resize, width: resize };
  return isFixedSize(resize) ? resize : null;
}

/** What is missing around the visible part of a region, as Pad takes it: of `[photos, height, width, channels]`, or with the channels first. */
function padsOf(g: Formula, region: Place, part: ReturnType<typeof visibleFormula>, isFirst: boolean): Name {
  const top = g.sub(part.top, region.top);
  const left = g.sub(part.left, region.left);
  const bottom = g.sub(g.add(region.top, region.height), part.bottom);
  const right = g.sub(g.add(region.left, region.width), part.right);
  return g.list(isFirst ? [0, 0, top, left, 0, 0, bottom, right] : [0, top, left, 0, 0, bottom, right, 0]);
}

/** Pads with a colour, which is 0 while Pad runs. */
function padWith(
  g: Formula,
  pixels: Name,
  pads: Name,
  fill: NonNullable<TransformOptions['fill']>,
  channels: 1 | 3,
): Name {
  const colour = typeof fill === 'number' ? [fill, fill, fill] : fill;
  if (colour.every((value) => value === 0)) return g.op('Pad', [pixels, pads]);
  const shift = g.float32(colour.slice(0, channels));
  return g.add(g.op('Pad', [g.sub(pixels, shift), pads]), shift);
}

/**
 * The value of each byte and channel, looked up: no runtime rounds that otherwise (docs/decisions/052-bytes-as-feeds.md).
 *
 * @param planes - `[channels, photos, height, width]` float32.
 */
function valueNodes(g: Formula, planes: Name, transform: Transform, { dtype }: PixelTarget): Name {
  if (dtype === 'uint8') return g.cast(planes, 'uint8');
  const values = valuesOf(transform);
  const dims = [transform.channels, 256];
  const table =
    dtype === 'float32'
      ? g.nodes.floats(dims, values)
      : g.nodes.tensor(ELEMENT_TYPE.float16, dims, encodeFloat16(values));
  const bytes = g.reshape(g.cast(planes, 'int32'), [transform.channels, -1]);
  // ONNX Runtime's Gather takes ten times as long.
  const found = g.op('GatherElements', [table, bytes], { axis: 1 });
  return g.op('Reshape', [found, g.op('Shape', [planes])]);
}
