/**
 * Resampling as nodes: `[photos, height, width, channels]` uint8 to float32 whole numbers 0 to 255 of a region. Each pass cuts the image into
 * overlapping windows and multiplies them with the weights of a block of positions. A weight of 22 bits is the sum of two parts, of which every sum of
 * products is a whole number below 2^24: float32 adds them exactly in any order, fused or not (docs/decisions/065-pixels-in-the-file.md).
 */
import type { Sampling } from '../images/resample/kernel.js';
import type { Formula, Name } from './formula.js';
import { betweenPixels, blockKernel, nearestPixels, type Axis, type BlockKernel } from './kernels.js';
import type { Sides } from './sizes.js';

/** Pixels: `[photos, height, width, channels]` uint8. */
export interface Pixels extends Sides {
  readonly data: Name;
  readonly photos: Name;
  readonly channels: 1 | 3;
}

/** Positions of a block: three channels of them, in two parts, fill vectors of 8 or 16 numbers. */
const ACROSS: Readonly<Record<1 | 3, number>> = { 1: 15, 3: 5 };
const DOWN = 8;
/** Pixels that are copied together. */
const CHUNK = 8;

/** Bits of the lower part of a weight. */
const LOW_BITS = 7;
const LOW = 2 ** LOW_BITS;
const HIGH_ONE = 2 ** (22 - LOW_BITS);

/** Resizes an image and cuts the positions of the axes: float32, whole numbers. */
export function resampleFormula(
  g: Formula,
  image: Pixels,
  down: Axis,
  across: Axis,
  sampling: Sampling,
): Name {
  const { interpolation, resampler, antialias = true } = sampling;
  const isTorch = resampler === 'torch';
  if (interpolation === 'nearest') {
    const rows = g.gather(image.data, nearestPixels(g, down, isTorch), 1);
    return g.cast(g.gather(rows, nearestPixels(g, across, isTorch), 2), 'float32');
  }
  if (!antialias) return mixFour(g, image, down, across);
  const turn = isTorch ? undefined : turnsFirst(g, down, across, resampler === 'pillow-13');
  const [second, first] = turn
    ? [chooseAxis(g, turn, across, down), chooseAxis(g, turn, down, across)]
    : [down, across];
  const columns = blockKernel(g, first, interpolation, isTorch, {
    positions: ACROSS[image.channels],
    chunk: CHUNK,
  });
  const rows = blockKernel(g, second, interpolation, isTorch, { positions: DOWN, chunk: 1 });
  const read = readPart(g, image, turn, rows, columns);
  const narrow = passAcross(g, { ...image, data: read }, rows, columns, first);
  const result = passDown(g, image, narrow, rows, first, second);
  if (!turn) return result;
  return g.branch(
    turn,
    (b) => b.transpose(result, [0, 2, 1, 3]),
    (b) => b.op('Identity', [result]),
  );
}

/** Whether the vertical pass comes first: see `takesRowsFirst` of `images/resample/resample.ts`. */
function turnsFirst(g: Formula, down: Axis, across: Axis, isNew: boolean): Name {
  const rows = g.sub(down.inSize, down.outSize);
  const isMuch = isNew
    ? g.op('Greater', [rows, g.mul(g.sub(across.inSize, across.outSize), g.int(2))])
    : g.op('Greater', [down.inSize, g.mul(across.inSize, g.int(100))]);
  return g.op('And', [g.op('Greater', [rows, g.int(0)]), isMuch]);
}

function chooseAxis(g: Formula, condition: Name, yes: Axis, no: Axis): Axis {
  const choose = (side: keyof Axis): Name =>
    yes[side] === no[side] ? yes[side] : g.where(condition, yes[side], no[side]);
  return { inSize: choose('inSize'), outSize: choose('outSize'), from: choose('from'), to: choose('to') };
}

/** The pixels that the passes read, so that the first pass goes along axis 2. */
function readPart(
  g: Formula,
  { data }: Pixels,
  turn: Name | undefined,
  rows: BlockKernel,
  columns: BlockKernel,
): Name {
  const cut = (b: Formula, rowAxis: number): Name =>
    b.slice(data, [
      { axis: rowAxis, from: rows.first, to: rows.last },
      { axis: 3 - rowAxis, from: columns.first, to: columns.last },
    ]);
  if (!turn) return cut(g, 1);
  return g.branch(
    turn,
    (b) => b.transpose(cut(b, 2), [0, 2, 1, 3]),
    (b) => cut(b, 1),
  );
}

/** Whole weights as two parts in float32: the high one, and the low one over 2^7. */
function splitWeights(g: Formula, weights: Name): readonly [high: Name, low: Name] {
  const high = g.floor(g.add(g.mul(weights, g.float32(1 / LOW)), g.float32(0.5)));
  const low = g.mul(g.sub(weights, g.mul(high, g.float32(LOW))), g.float32(1 / LOW));
  return [high, low];
}

/** The byte that two sums of products give together. */
function toByte(g: Formula, high: Name, low: Name): Name {
  const carried = g.floor(g.add(low, g.float32(HIGH_ONE / 2)));
  const sum = g.mul(g.add(high, carried), g.float32(1 / HIGH_ONE));
  return g.floor(g.op('Clip', [sum, g.float32(0), g.float32(255)]));
}

/** `[photos, rows, positions × channels]` */
function passAcross(
  g: Formula,
  { data, photos, channels }: Pixels,
  rows: BlockKernel,
  { first, last, chunks, windowChunks, weights }: BlockKernel,
  axis: Axis,
): Name {
  const positions = ACROSS[channels];
  const read = g.sub(last, first);
  const all = g.divUp(read, CHUNK);
  const missing = g.sub(g.mul(all, g.int(CHUNK)), read);
  const pads = g.list([0, 0, 0, 0, 0, 0, missing, 0]);
  const whole = g.op('Pad', [data, pads]);
  const height = g.mul(photos, g.sub(rows.last, rows.first));
  const cells = g.reshape(whole, [height, all, CHUNK * channels]);
  // A window may reach beyond the image, where its weights are 0.
  const picked = g.min(g.add(g.unsqueeze(chunks, [1]), g.range(windowChunks)), g.sub(all, g.int(1)));
  const length = g.mul(windowChunks, g.int(CHUNK * channels));
  const windows = g.reshape(g.gather(cells, picked, 1), [height, -1, length]);
  // The last Reshape changes nothing: ONNX Runtime 1.32 crashes where it fuses a Transpose of batches into a MatMul of operator set 13.
  const floats = g.reshape(g.cast(g.transpose(windows, [1, 0, 2]), 'float32'), [-1, height, length]);
  const parts = splitWeights(g, g.transpose(weights, [0, 2, 1]));
  const spread = spreadWeights(g, g.op('Concat', parts, { axis: 2 }), channels, length);
  const sums = g.op('MatMul', [floats, spread]);
  const width = positions * channels;
  const bytes = toByte(
    g,
    g.slice(sums, [{ axis: 2, from: 0, to: width }]),
    g.slice(sums, [{ axis: 2, from: width, to: 2 * width }]),
  );
  const joined = g.reshape(g.transpose(bytes, [1, 0, 2]), [photos, g.sub(rows.last, rows.first), -1]);
  const count = g.mul(g.sub(axis.to, axis.from), g.int(channels));
  return g.slice(joined, [{ axis: 2, from: 0, to: count }]);
}

/** Weights of one channel for all: `[blocks, window, columns]` to `[blocks, window × channels, columns × channels]`. */
function spreadWeights(g: Formula, weights: Name, channels: 1 | 3, length: Name): Name {
  if (channels === 1) return weights;
  const columns = 2 * ACROSS[channels];
  const width = columns * channels;
  // Multiplied by a matrix of ones and zeros, which takes a tenth of the time of a broadcast product.
  const ones = new Float32Array(columns * channels * width);
  for (let column = 0; column < columns; column++)
    for (let channel = 0; channel < channels; channel++)
      ones[(column * channels + channel) * width + column * channels + channel] = 1;
  const spread = g.op('MatMul', [weights, g.nodes.floats([columns, channels * width], ones)]);
  return g.reshape(spread, [-1, length, width]);
}

/** `[photos, positions down, positions across, channels]` */
function passDown(
  g: Formula,
  { photos, channels }: Pixels,
  narrow: Name,
  { first, last, chunks, windowChunks, weights }: BlockKernel,
  across: Axis,
  axis: Axis,
): Name {
  const end = g.sub(g.sub(last, first), g.int(1));
  const picked = g.min(g.add(g.unsqueeze(chunks, [1]), g.range(windowChunks)), end);
  const windows = g.gather(narrow, picked, 1);
  const parts = g.op('Concat', splitWeights(g, weights), { axis: 1 });
  const sums = g.op('MatMul', [parts, windows]);
  const bytes = toByte(
    g,
    g.slice(sums, [{ axis: 2, from: 0, to: DOWN }]),
    g.slice(sums, [{ axis: 2, from: DOWN, to: 2 * DOWN }]),
  );
  const rows = g.reshape(bytes, [photos, -1, g.sub(across.to, across.from), channels]);
  return g.slice(rows, [{ axis: 1, from: 0, to: g.sub(axis.to, axis.from) }]);
}

/** torch's bilinear resize without antialias: products and sums in float64, each rounded to float32 once, as fused operations are. */
function mixFour(g: Formula, { data }: Pixels, down: Axis, across: Axis): Name {
  const [rows, columns] = [betweenPixels(g, down), betweenPixels(g, across)];
  const part = (row: Name, column: Name): Name =>
    g.cast(g.gather(g.gather(data, row, 1), column, 2), 'float64');
  const lower = g.unsqueeze(rows.weight, [1, 2]);
  const after = g.unsqueeze(columns.weight, [1]);
  const one = g.float32(1);
  const [upper, before] = [g.sub(one, lower), g.sub(one, after)];
  const weight = (a: Name, b: Name): Name => g.cast(g.mul(a, b), 'float64');
  const once = (value: Name): Name => g.cast(value, 'float32');
  let sum = once(g.mul(part(rows.first, columns.second), weight(upper, after)));
  for (const [row, column, factor] of [
    [rows.first, columns.first, weight(upper, before)],
    [rows.second, columns.first, weight(lower, before)],
    [rows.second, columns.second, weight(lower, after)],
  ] as const)
    sum = once(g.add(g.mul(part(row, column), factor), g.cast(sum, 'float64')));
  return g.op('Round', [sum]);
}
