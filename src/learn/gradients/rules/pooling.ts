/** Rules of pools. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom } from '../backward/graph-math.js';
import { SCATTER_ADDS } from './indexing.js';
import { extremeGradient, meanGradient, type Reduced } from './reduction.js';
import { readWindow, slicesByOffset, spanOf, spreadWindows, type WindowAxis } from './window.js';

/** The attributes that decide which elements a window takes. */
function copiedAttributes(b: Backward): Record<string, number | string | readonly number[]> {
  const attributes: Record<string, number | string | readonly number[]> = {
    kernel_shape: b.list('kernel_shape') ?? b.refuse('it has no kernel_shape'),
    ceil_mode: b.int('ceil_mode', 0),
  };
  for (const name of ['strides', 'pads', 'dilations']) {
    const list = b.list(name);
    if (list) attributes[name] = list;
  }
  const mode = b.text('auto_pad', 'NOTSET');
  return mode === 'NOTSET' ? attributes : { ...attributes, auto_pad: mode };
}

/** The gradient goes to the first of equal maxima. Windows may overlap, so it adds up. */
const maxPool: Rule = (b) => {
  if (b.hasGradient(1)) b.refuse('its indices have no gradient');
  if (b.int('storage_order', 0) !== 0) b.refuse('its indices count columns first');
  return [() => (b.opset >= SCATTER_ADDS ? byIndices(b) : byComparison(b))];
};

/** The runtime tells where each maximum is. */
function byIndices(b: Backward): string {
  const [, indices] = b.nodes.addSeveral('MaxPool', [b.x], 2, copiedAttributes(b));
  const size = b.reshape(b.one('Size', b.x), [1]);
  const scattered = b.scatterAdd('ScatterElements', size, b.reshape(indices!, [-1]), b.reshape(b.dy, [-1]));
  return b.reshapeLike(scattered, b.value(0));
}

/** Less than any element. */
const LOWEST = -3.4028234663852886e38;

/** Operator sets whose scatters cannot add: each offset of the window is compared with the maximum, the first that reaches it takes all. */
function byComparison(b: Backward): string {
  const kernel = b.list('kernel_shape') ?? b.refuse('it has no kernel_shape');
  if (b.int('ceil_mode', 0) === 1)
    b.refuse(
      `with ceil_mode, its gradient needs operator set ${SCATTER_ADDS}; convert the model first (onnx.version_converter)`,
    );
  const window = readWindow(b, b.value(0), b.output(0), kernel);
  const slices = slicesByOffset(b, { large: b.x, small: b.dy, smallValue: b.output(0), window }, LOWEST);
  let left: string | undefined;
  const parts = slices.map((elements) => {
    const reaches = b.indicator(b.equal(elements, b.y));
    const takes = left === undefined ? reaches : b.mul(reaches, left);
    left = b.sub(left ?? 1, takes);
    return asSamples(b, b.mul(b.dy, takes), window.length);
  });
  // A channel per offset; the weight of each is 1 at its offset.
  const ones = identityWeights(kernel);
  const weights = b.nodes.tensor(ELEMENT_TYPE.float32, ones.dims, ones.data);
  const typed = b.elemType === ELEMENT_TYPE.float32 ? weights : b.cast(weights, b.elemType);
  const spread = spreadWindows(b, b.concat(parts, 1), typed, b.value(0), window, 1);
  return b.reshapeLike(spread, b.value(0));
}

/** `[N, C, …]` as `[N · C, 1, …]`. */
function asSamples(b: Backward, input: string, axes: number): string {
  const spatial = b.slice(b.sizes(input), [0], [2], [2 + axes]);
  return b.reshape(input, b.concat([b.ints([-1, 1]), spatial], 0));
}

/** `[offsets, 1, kernel…]` */
function identityWeights(kernel: readonly number[]): { readonly dims: number[]; readonly data: Uint8Array } {
  const count = kernel.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length: count * count }, (_, i) => (i % (count + 1) === 0 ? 1 : 0));
  return { dims: [count, 1, ...kernel], data: new Uint8Array(values.buffer) };
}

/** Each element of a window gets the same part. A window at the border may divide by fewer elements. */
const averagePool: Rule = (b) => [
  () => {
    const kernel = b.list('kernel_shape') ?? b.refuse('it has no kernel_shape');
    const window = readWindow(b, b.value(0), b.output(0), kernel);
    const count = b.channels(b.value(0));
    const ones = b.expand(1, b.ints([count, 1, ...kernel]));
    const parts = b.div(b.dy, divisors(b, window));
    return spreadWindows(b, parts, ones, b.value(0), window, count);
  },
];

/** The number of elements that each window divides by: a number, or a tensor `[1, 1, …]`. */
function divisors(b: Backward, window: readonly WindowAxis[]): string | number {
  const kernel = window.map((axis) => axis.kernel);
  const isPadded = window.some(({ begin, end }) => begin !== 0 || end !== 0);
  const includesPads = b.int('count_include_pad', 0) === 1;
  const isCeil = b.int('ceil_mode', 0) === 1;
  if (!isCeil && (!isPadded || includesPads)) return kernel.reduce((product, size) => product * size, 1);
  const spatial = b.slice(b.sizes(b.x), [0], [2], [2 + window.length]);
  const begins = window.map(({ begin }) => begin);
  const ends = window.map(({ end }) => end ?? 0);
  // Elements that count are ones: those of the input, and pads where they are included.
  const counted = includesPads
    ? b.add(spatial, b.ints(window.map((_, axis) => begins[axis]! + ends[axis]!)))
    : spatial;
  const ones = b.expand(1, b.concat([b.ints([1, 1]), counted], 0));
  // With ceil_mode, the last window may reach beyond the pads.
  const beyond = window.map((axis) => (isCeil ? reachBeyond(b, axis) : 0));
  const pads = includesPads
    ? [...window.map(() => 0), ...beyond]
    : [...begins, ...ends.map((end, axis) => end + beyond[axis]!)];
  const weights = b.expand(1, b.ints([1, 1, ...kernel]));
  return b.nodes.add('Conv', [ones, weights], {
    kernel_shape: kernel,
    strides: window.map(({ stride }) => stride),
    dilations: window.map(({ dilation }) => dilation),
    pads,
  });
}

/** How far the last window reaches after the pads. */
function reachBeyond(b: Backward, axis: WindowAxis): number {
  const { size, positions, stride, begin, end } = axis;
  if (size === null || positions === null) b.refuse('it has ceil_mode and the size of an axis is open');
  return Math.max(stride * (positions! - 1) + spanOf(axis) - size! - begin - (end ?? 0), 0);
}

/** A pool of whole maps reduces all axes after the channels. */
const wholeMap =
  (gradient: Reduced): Rule =>
  (b) => [() => gradient(b, b.dy, b.y, axesFrom(2, b.rank(b.value(0))))];

export const pools: Rules = {
  MaxPool: maxPool,
  AveragePool: averagePool,
  GlobalAveragePool: wholeMap(meanGradient),
  GlobalMaxPool: wholeMap(extremeGradient),
};
