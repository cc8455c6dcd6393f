/** Rules of convolutions. docs/decisions/031-gradients.md says why weights have three forms. */
import type { Value } from '../../graph.js';
import type { Backward } from '../build/backward.js';
import type { Rule, Rules } from '../build/rule.js';
import { readWindow, spreadWindows, type WindowAxis } from './window.js';

/** With so few input channels, one convolution with the gradient as its kernel is faster than a product per offset. */
const FEW_CHANNELS = 4;

/** Sums over all axes but the channels. */
function biasGradient(b: Backward): string {
  const rank = b.rank(b.output(0));
  const axes = Array.from({ length: rank }, (_, axis) => axis).filter((axis) => axis !== 1);
  return b.sum(b.dy, axes, false);
}

/** The sizes of a weight `[out, in / group, kernel…]`. */
function weightSizes(b: Backward, weight: Value): readonly number[] {
  const dims = b.dims(weight);
  if (!dims.every((size) => typeof size === 'number')) b.refuse('the sizes of its weight are open');
  return dims as readonly number[];
}

const convolution: Rule = (b) => {
  const [x, weight] = [b.value(0), b.value(1)];
  const sizes = weightSizes(b, weight);
  const window = readWindow(b, x, b.output(0), sizes.slice(2));
  const group = b.int('group', 1);
  return [
    () => spreadWindows(b, b.dy, weight.name, x, window, group),
    () => weightGradient(b, { large: x.name, small: b.dy, smallValue: b.output(0), window, group, sizes }),
    () => biasGradient(b),
  ];
};

/** The adjoint of a convolution: its gradient is that convolution, and the two tensors change their places. */
const transposedConvolution: Rule = (b) => {
  const [x, weight] = [b.value(0), b.value(1)];
  if (b.list('output_shape')) b.refuse('its output_shape decides about its pads');
  const sizes = weightSizes(b, weight);
  const mode = b.text('auto_pad', 'NOTSET');
  if (mode !== 'NOTSET' && mode !== 'VALID') b.refuse(`its auto_pad is "${mode}"`);
  const window = readWindow(b, b.output(0), x, sizes.slice(2));
  const group = b.int('group', 1);
  return [
    () =>
      b.nodes.add('Conv', [b.dy, weight.name], {
        kernel_shape: window.map(({ kernel }) => kernel),
        strides: window.map(({ stride }) => stride),
        dilations: window.map(({ dilation }) => dilation),
        pads: padsOf(window),
        ...(group === 1 ? {} : { group }),
      }),
    () => weightGradient(b, { large: b.dy, small: x.name, smallValue: x, window, group, sizes }),
    () => biasGradient(b),
  ];
};

function padsOf(window: readonly WindowAxis[]): number[] {
  return [...window.map(({ begin }) => begin), ...window.map(({ end }) => end ?? 0)];
}

/** What the gradient of a weight is computed from. */
interface Correlation {
  /** The tensor that windows slide over, `[N, in, …]`, and the one with a position per window, `[N, out, …]`. */
  readonly large: string;
  readonly small: string;
  readonly smallValue: Value;
  readonly window: readonly WindowAxis[];
  readonly group: number;
  /** `[out, in / group, kernel…]` */
  readonly sizes: readonly number[];
}

function weightGradient(b: Backward, correlation: Correlation): string {
  const { group, sizes } = correlation;
  const isPoint = sizes.slice(2).every((size) => size === 1);
  return group === 1 && sizes[1]! <= FEW_CHANNELS && !isPoint
    ? byConvolution(b, correlation)
    : byOffsets(b, correlation);
}

/** Samples and channels change their places: one convolution over the larger tensor, with the smaller one as its kernel. */
function byConvolution(b: Backward, { large, small, window, sizes }: Correlation): string {
  const turn = [1, 0, ...window.map((_, axis) => axis + 2)];
  const swapped = b.nodes.add('Conv', [b.transpose(large, turn), b.transpose(small, turn)], {
    strides: window.map(({ dilation }) => dilation),
    dilations: window.map(({ stride }) => stride),
    pads: padsOf(window),
  });
  // A remainder of the stride gives more offsets than the kernel has.
  const axes = window.map((_, axis) => axis + 2);
  const cut = b.slice(
    swapped,
    axes,
    axes.map(() => 0),
    sizes.slice(2),
  );
  return b.transpose(cut, turn);
}

/** For each offset in the kernel, one product over all samples and positions. */
function byOffsets(b: Backward, correlation: Correlation): string {
  const { small, window, group, sizes } = correlation;
  const [out, perGroup] = sizes as [number, number];
  const rows = b.reshape(small, [0, group, out / group, -1]);
  const products = slicesByOffset(b, correlation).map((elements) => {
    const columns = b.reshape(elements, [0, group, perGroup, -1]);
    const product = b.matmul(rows, b.transpose(columns, [0, 1, 3, 2]));
    return b.sum(product, [0], false);
  });
  if (window.every(({ kernel }) => kernel === 1)) return b.reshape(products[0]!, sizes);
  const stacked = b.concat(
    products.map((product) => b.unsqueeze(product, [3])),
    3,
  );
  return b.reshape(stacked, sizes);
}

/** The elements that each offset of the kernel reads, in row-major order of the offsets: tensors with the sizes of the smaller one. */
function slicesByOffset(b: Backward, { large, small, smallValue, window }: Correlation): readonly string[] {
  const isWhole = window.every(
    ({ kernel, stride, begin, end }) => kernel === 1 && stride === 1 && begin === 0 && end === 0,
  );
  if (isWhole) return [large];
  const pads = [[0, 0], window.map(({ begin }) => begin), [0, 0], window.map(({ end }) => end ?? 0)].flat();
  const padded = b.pad(large, pads);
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

export const convolutions: Rules = { Conv: convolution, ConvTranspose: transposedConvolution };
