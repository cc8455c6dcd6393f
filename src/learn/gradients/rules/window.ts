/** Windows that slide over the axes after the channels: the geometry of convolutions and pools, and their adjoint. */
import type { Dim } from '../../../onnx/file/wire/schema.js';
import type { Value } from '../../../onnx/graph/graph.js';
import type { Backward } from '../backward/backward.js';

/** How a window slides along one axis. */
export interface WindowAxis {
  /** Sizes of the axis in the larger tensor and in the one with a position per window; null where open. */
  readonly size: number | null;
  readonly positions: number | null;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  /** Pads in front and behind; `end` is null where it depends on an open size. */
  readonly begin: number;
  readonly end: number | null;
}

/** Elements that a window spans. */
export function spanOf({ kernel, dilation }: WindowAxis): number {
  return dilation * (kernel - 1) + 1;
}

/** Two tensors between which windows slide. */
export interface Sliding {
  /** The tensor that windows slide over, `[N, in, …]`, and the one with a position per window, `[N, out, …]`. */
  readonly large: string;
  readonly small: string;
  readonly smallValue: Value;
  readonly window: readonly WindowAxis[];
}

/** The geometry of a node whose windows, of sizes `kernel`, slide over `large`; `small` has a position per window. */
export function readWindow(b: Backward, large: Value, small: Value, kernel: readonly number[]): WindowAxis[] {
  const [sizes, positions] = [b.dims(large).slice(2), b.dims(small).slice(2)];
  const known = (size: Dim | undefined): number | null => (typeof size === 'number' ? size : null);
  const mode = b.text('auto_pad', 'NOTSET');
  return kernel.map((count, axis): WindowAxis => {
    const stride = b.list('strides')?.[axis] ?? 1;
    const dilation = b.list('dilations')?.[axis] ?? 1;
    const size = known(sizes[axis]);
    const plain = { size, kernel: count, stride, dilation, begin: 0, end: 0 };
    if (mode === 'NOTSET' || mode === '') {
      const pads = b.list('pads') ?? [];
      const begin = pads[axis] ?? 0;
      return { ...plain, positions: known(positions[axis]), begin, end: pads[kernel.length + axis] ?? 0 };
    }
    if (mode === 'VALID') return { ...plain, positions: known(positions[axis]) };
    if (mode !== 'SAME_UPPER' && mode !== 'SAME_LOWER') b.refuse(`its auto_pad is "${mode}"`);
    if (size === null && stride !== 1)
      b.refuse(
        `its auto_pad is "${mode}" and the size of axis ${axis + 2} is open; export it with numbers as pads`,
      );
    const count1 = size === null ? null : Math.ceil(size / stride);
    const total =
      size === null
        ? dilation * (count - 1)
        : Math.max((count1! - 1) * stride + spanOf(plain as WindowAxis) - size, 0);
    const begin = mode === 'SAME_UPPER' ? Math.floor(total / 2) : Math.ceil(total / 2);
    return { ...plain, positions: count1, begin, end: total - begin };
  });
}

/**
 * The adjoint of sliding windows: adds what each position holds, times the weights, to the elements of its window.
 *
 * @param weights - `[channels, channels / group, kernel…]`
 * @param like - The tensor whose sizes the result has.
 */
export function spreadWindows(
  b: Backward,
  small: string,
  weights: string,
  like: Value,
  window: readonly WindowAxis[],
  group: number,
): string {
  const turned = turnedConvolution(b, small, weights, window, group);
  if (turned !== undefined) return turned;
  const attributes = {
    kernel_shape: window.map(({ kernel }) => kernel),
    strides: window.map(({ stride }) => stride),
    dilations: window.map(({ dilation }) => dilation),
    ...(group === 1 ? {} : { group }),
  };
  const ends = window.map(endOf);
  if (ends.every((end) => end !== null)) {
    const extra = ends.map((end) => Math.max(-end, 0));
    return b.nodes.add('ConvTranspose', [small, weights], {
      ...attributes,
      pads: [...window.map(({ begin }) => begin), ...ends.map((end) => Math.max(end, 0))],
      ...(extra.some((size) => size > 0) ? { output_padding: extra } : {}),
    });
  }
  // A stride leaves it open how much of the last elements no window reaches: cut, or filled up, to the size that is there.
  const whole = b.nodes.add('ConvTranspose', [small, weights], attributes);
  const axes = window.map((_, axis) => axis + 2);
  const begins = b.ints(window.map(({ begin }) => -begin));
  const sizesOf = (tensor: string): string => b.slice(b.sizes(tensor), [0], [2], [2 + axes.length]);
  const behind = b.sub(b.sub(sizesOf(like.name), sizesOf(whole)), begins);
  const none = b.ints([0, 0]);
  return b.pad(whole, b.concat([none, begins, none, behind], 0));
}

/** Elements to cut after the reach of the last window; negative to fill up. null if that depends on an open size. */
function endOf(axis: WindowAxis): number | null {
  const { size, positions, stride, begin, end } = axis;
  if (size !== null && positions !== null) return stride * (positions - 1) + spanOf(axis) - begin - size;
  return stride === 1 ? end : null;
}

/**
 * With a stride of 1, the adjoint is the convolution with the weights turned round. Runtimes compute it faster than a transposed one.
 * undefined for other strides and for windows that the pads exceed.
 */
function turnedConvolution(
  b: Backward,
  small: string,
  weights: string,
  window: readonly WindowAxis[],
  group: number,
): string | undefined {
  const begins = window.map((axis) => spanOf(axis) - 1 - axis.begin);
  const ends = window.map((axis) => spanOf(axis) - 1 - (axis.end ?? Infinity));
  if (window.some(({ stride }) => stride !== 1) || [...begins, ...ends].some((size) => size < 0))
    return undefined;
  const flipped = turnRound(b, weights, window);
  return b.nodes.add('Conv', [small, swapChannels(b, flipped, window, group)], {
    kernel_shape: window.map(({ kernel }) => kernel),
    dilations: window.map(({ dilation }) => dilation),
    pads: [...begins, ...ends],
    ...(group === 1 ? {} : { group }),
  });
}

/** Weights with their kernels turned round: a product with a permutation. A slice that runs backwards copies element by element, on one thread. */
function turnRound(b: Backward, weights: string, window: readonly WindowAxis[]): string {
  const kernel = window.map((axis) => axis.kernel);
  const offsets = kernel.reduce((product, size) => product * size, 1);
  if (offsets === 1) return weights;
  const turned = b.matmul(b.reshape(weights, [0, 0, offsets]), b.antidiagonal(offsets));
  return b.reshape(turned, [0, 0, ...kernel]);
}

/** `[groups · out, in, …]` as `[groups · in, out, …]`. */
function swapChannels(b: Backward, weights: string, window: readonly WindowAxis[], group: number): string {
  const axes = window.map((_, axis) => axis + 2);
  if (group === 1) return b.transpose(weights, [1, 0, ...axes]);
  const kernel = window.map((axis) => axis.kernel);
  // [groups, out, in, kernel…]; what is one axis again has groups first.
  const sizes = b.sizes(weights);
  const perGroup = b.slice(sizes, [0], [1], [2]);
  const apart = b.reshape(weights, b.concat([b.ints([group, -1]), perGroup, b.ints(kernel)], 0));
  const turned = b.transpose(apart, [0, 2, 1, ...axes.map((axis) => axis + 1)]);
  const count = b.mul(perGroup, b.ints([group]));
  return b.reshape(turned, b.concat([count, b.ints([-1]), b.ints(kernel)], 0));
}

/** The elements that each offset of the kernel reads, in row-major order of the offsets: tensors with the sizes of the smaller one. Pads are zeros, or
 * the filler. */
export function slicesByOffset(
  b: Backward,
  { large, small, smallValue, window }: Sliding,
  filler?: number,
): readonly string[] {
  const isWhole = window.every(
    ({ kernel, stride, begin, end }) => kernel === 1 && stride === 1 && begin === 0 && end === 0,
  );
  if (isWhole) return [large];
  const pads = [[0, 0], window.map(({ begin }) => begin), [0, 0], window.map(({ end }) => end ?? 0)].flat();
  const padded = b.pad(large, pads, filler);
  const axes = window.map((_, axis) => axis + 2);
  const steps = window.map(({ stride }) => stride);
  const positions = b.dims(smallValue).slice(2);
  const isKnown = positions.every((size) => typeof size === 'number');
  // What all positions of one offset span.
  const spans = isKnown
    ? positions.map((size, axis) => (Number(size) - 1) * steps[axis]! + 1)
    : openSpans(b, small, steps);
  return offsetsOf(window).map((starts) => {
    const ends =
      typeof spans === 'string'
        ? b.add(spans, b.ints(starts))
        : starts.map((start, axis) => start + spans[axis]!);
    return b.slice(padded, axes, starts, ends, steps);
  });
}

function openSpans(b: Backward, small: string, steps: readonly number[]): string {
  const sizes = b.slice(b.sizes(small), [0], [2], [2 + steps.length]);
  const one = b.ints([1]);
  return b.add(b.mul(b.sub(sizes, one), b.ints(steps)), one);
}

/** Where the elements of each offset start. */
function offsetsOf(window: readonly WindowAxis[]): number[][] {
  return window.reduce<number[][]>(
    (starts, { kernel, dilation }) =>
      starts.flatMap((start) => Array.from({ length: kernel }, (_, i) => [...start, i * dilation])),
    [[]],
  );
}
