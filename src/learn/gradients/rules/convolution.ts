/** Rules of convolutions. docs/decisions/031-gradients.md says why weights have three forms. */
import type { Value } from '../../../onnx/graph/graph.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { TO_THE_END } from '../backward/graph-math.js';
import { besideChannels } from './normalization.js';
import { readWindow, slicesByOffset, spreadWindows, type Sliding, type WindowAxis } from './window.js';

/** With so few input channels, one convolution with the gradient as its kernel is faster than a product per offset. */
const FEW_CHANNELS = 4;
/** In groups it is as fast from larger kernels on, and one node instead of several for each offset. */
const MANY_OFFSETS = 9;

function biasGradient(b: Backward): string {
  return b.sum(b.dy, besideChannels(b.rank(b.output(0))), false);
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
interface Correlation extends Sliding {
  readonly group: number;
  /** `[out, in / group, kernel…]` */
  readonly sizes: readonly number[];
}

function weightGradient(b: Backward, correlation: Correlation): string {
  const { group, sizes } = correlation;
  const offsets = sizes.slice(2).reduce((product, size) => product * size, 1);
  const isFaster = group === 1 ? offsets > 1 : offsets > MANY_OFFSETS;
  return sizes[1]! <= FEW_CHANNELS && isFaster ? byConvolution(b, correlation) : byOffsets(b, correlation);
}

/** Samples and channels change their places: one convolution over the larger tensor, with the smaller one as its kernel. */
function byConvolution(b: Backward, { large, small, window, group, sizes }: Correlation): string {
  const axes = window.map((_, axis) => axis + 2);
  const turn = [1, 0, ...axes];
  const samples = samplesAsChannels(b, large, group, sizes[1]!, axes);
  const swapped = b.nodes.add('Conv', [samples, b.transpose(small, turn)], {
    strides: window.map(({ dilation }) => dilation),
    dilations: window.map(({ stride }) => stride),
    pads: padsOf(window),
    ...(group === 1 ? {} : { group }),
  });
  // A remainder of the stride gives more offsets than the kernel has.
  const cut = b.slice(
    swapped,
    axes,
    axes.map(() => 0),
    sizes.slice(2),
  );
  return b.transpose(cut, turn);
}

/** `[N, groups · channels, …]` as `[channels, groups · N, …]`: the channels of a group become samples, and samples its channels. */
function samplesAsChannels(
  b: Backward,
  input: string,
  group: number,
  channels: number,
  axes: readonly number[],
): string {
  if (group === 1) return b.transpose(input, [1, 0, ...axes]);
  const spatial = b.slice(b.sizes(input), [0], [2], [TO_THE_END]);
  const shaped = (list: readonly number[]): string => b.concat([b.ints(list), spatial], 0);
  const apart = b.reshape(input, shaped([-1, group, channels]));
  const turned = b.transpose(apart, [2, 1, 0, ...axes.map((axis) => axis + 1)]);
  return b.reshape(turned, shaped([channels, -1]));
}

/** For each offset in the kernel, one product over all samples and positions. */
function byOffsets(b: Backward, correlation: Correlation): string {
  const { window, sizes } = correlation;
  const [out, perGroup] = sizes as [number, number];
  const slices = slicesByOffset(b, correlation);
  const products = isWide(b, correlation)
    ? productsOfRows(b, correlation, slices)
    : productsOfSamples(b, correlation, slices);
  if (window.every(({ kernel }) => kernel === 1)) return b.reshape(products[0]!, sizes);
  const stacked = b.concat(
    products.map((product) => b.reshape(product, [out, perGroup, 1])),
    2,
  );
  return b.reshape(stacked, sizes);
}

/** A map is usually this small where its channels are as many. */
const LIKELY_POSITIONS = 255;

/** Whether a product per sample has more elements than its operands have positions: then all samples go into one product. */
function isWide(b: Backward, { group, sizes, smallValue }: Correlation): boolean {
  const positions = b.dims(smallValue).slice(2);
  const isKnown = positions.every((size) => typeof size === 'number');
  const count = isKnown ? positions.reduce((product, size) => product * Number(size), 1) : LIKELY_POSITIONS;
  return Math.min(sizes[0]! / group, sizes[1]!) > count;
}

/** A product per sample, then their sum: `[groups, out, in]` each. */
function productsOfSamples(
  b: Backward,
  { small, group, sizes }: Correlation,
  slices: readonly string[],
): string[] {
  const [out, perGroup] = sizes as [number, number];
  const rows = b.reshape(small, [0, group, out / group, -1]);
  return slices.map((elements) => {
    const columns = b.reshape(elements, [0, group, perGroup, -1]);
    return b.sum(b.matmul(rows, b.transpose(columns, [0, 1, 3, 2])), [0], false);
  });
}

/** One product over the positions of all samples, which are moved together first. */
function productsOfRows(
  b: Backward,
  { small, group, sizes }: Correlation,
  slices: readonly string[],
): string[] {
  const [out, perGroup] = sizes as [number, number];
  const rows = b.reshape(b.transpose(b.reshape(small, [0, group, out / group, -1]), [1, 2, 0, 3]), [
    group,
    out / group,
    -1,
  ]);
  return slices.map((elements) => {
    const columns = b.transpose(b.reshape(elements, [0, group, perGroup, -1]), [1, 0, 3, 2]);
    return b.matmul(rows, b.reshape(columns, [group, -1, perGroup]));
  });
}

export const convolutions: Rules = { Conv: convolution, ConvTranspose: transposedConvolution };
