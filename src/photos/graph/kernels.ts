/**
 * The weights of resampling as formulas: those of `images/resample/kernel.ts`, in float64 and in the same steps, so that they are the same
 * whole numbers. Positions are cut into blocks; the positions of a block read one window of the image.
 */
import type { Interpolation } from '../images/resample/kernel.js';
import { exactWeights, isCoarse, STEPS, type RationalFilter } from './exact-ratios.js';
import type { Formula, Name } from './formula.js';

/** An axis of an image that is resized: int64 scalars. */
export interface Axis {
  readonly inSize: Name;
  readonly outSize: Name;
  /** The first position of the result, and the one after the last. */
  readonly from: Name;
  readonly to: Name;
}

/** The weights of an axis. */
export interface BlockKernel {
  /** The first pixel that is read, and the one after the last. */
  readonly first: Name;
  readonly last: Name;
  /** For each block, the chunk of pixels at which its window begins; chunks are counted from `first`. */
  readonly chunks: Name;
  /** Chunks of a window. */
  readonly windowChunks: Name;
  /** `[blocks, positions, window]` float32: whole numbers, of which 2^22 means 1. */
  readonly weights: Name;
}

const BITS = 22;
/** torch's weights fit 16 bits. */
const TORCH_LIMIT = 2 ** 15;

type Filter = Exclude<Interpolation, 'nearest'>;

const SUPPORT: Readonly<Record<Filter, number>> = {
  box: 0.5,
  bilinear: 1,
  hamming: 1,
  bicubic: 2,
  lanczos: 3,
};

/** How the windows of an axis lie. */
interface Windows {
  readonly scale: Name;
  readonly support: Name;
  readonly inverse: Name;
}

function windowsOf(g: Formula, { inSize, outSize }: Axis, filter: Filter): Windows {
  const scale = g.div(g.cast(inSize, 'float64'), g.cast(outSize, 'float64'));
  const filterScale = g.max(scale, g.float64(1));
  return {
    scale,
    support: g.mul(g.float64(SUPPORT[filter]), filterScale),
    inverse: g.div(g.float64(1), filterScale),
  };
}

/** Where positions lie, and which pixels they read: float64 of the shape of the positions. */
function placesOf(
  g: Formula,
  positions: Name,
  { inSize }: Axis,
  { scale, support }: Windows,
): { readonly center: Name; readonly start: Name; readonly end: Name } {
  const center = g.mul(g.add(g.cast(positions, 'float64'), g.float64(0.5)), scale);
  const half = g.float64(0.5);
  const start = g.floor(g.max(g.add(g.sub(center, support), half), g.float64(0)));
  const end = g.min(g.floor(g.add(g.add(center, support), half)), g.cast(inSize, 'float64'));
  return { center, start, end };
}

/** Weights whose sum over the last axis is 1. */
function weigh(
  g: Formula,
  filter: Filter,
  pixels: Name,
  { center, start, end }: ReturnType<typeof placesOf>,
  { inverse }: Windows,
): Name {
  const at = g.mul(g.add(g.sub(pixels, center), g.float64(0.5)), inverse);
  const isRead = g.op('And', [g.op('GreaterOrEqual', [pixels, start]), g.op('Less', [pixels, end])]);
  const raw = g.where(isRead, filterFormula(g, filter, at), g.float64(0));
  const sum = g.op('ReduceSum', [raw, g.int([-1])], { keepdims: 1 });
  const isNone = g.op('Equal', [sum, g.float64(0)]);
  return g.div(raw, g.where(isNone, g.float64(1), sum));
}

function filterFormula(g: Formula, filter: Filter, x: Name): Name {
  const d = (value: number): Name => g.float64(value);
  if (filter === 'box') {
    const isInside = g.op('And', [g.op('Greater', [x, d(-0.5)]), g.op('LessOrEqual', [x, d(0.5)])]);
    return g.where(isInside, d(1), d(0));
  }
  if (filter === 'lanczos') {
    const isInside = g.op('And', [g.op('GreaterOrEqual', [x, d(-3)]), g.op('Less', [x, d(3)])]);
    return g.where(
      isInside,
      g.mul(sinc(g, g.mul(x, d(Math.PI))), sinc(g, g.mul(g.div(x, d(3)), d(Math.PI)))),
      d(0),
    );
  }
  const at = g.op('Abs', [x]);
  if (filter === 'bilinear') return g.max(g.sub(d(1), at), d(0));
  if (filter === 'hamming') {
    const angle = g.mul(at, d(Math.PI));
    // Few runtimes have a cosine of float64.
    const half = g.op('Sin', [g.mul(angle, d(0.5))]);
    const cosine = g.sub(d(1), g.mul(d(2), g.mul(half, half)));
    const window = g.add(d(Math.fround(0.54)), g.mul(d(Math.fround(0.46)), cosine));
    return g.where(g.op('Less', [angle, d(Math.PI)]), g.mul(sinc(g, angle), window), d(0));
  }
  const a = -0.5;
  const near = g.add(g.mul(g.mul(g.sub(g.mul(d(a + 2), at), d(a + 3)), at), at), d(1));
  const far = g.mul(g.sub(g.mul(g.add(g.mul(g.sub(at, d(5)), at), d(8)), at), d(4)), d(a));
  const isFar = g.op('Less', [at, d(2)]);
  return g.where(g.op('Less', [at, d(1)]), near, g.where(isFar, far, d(0)));
}

/** sin(x) / x, 1 at 0. */
function sinc(g: Formula, x: Name): Name {
  const isZero = g.op('Equal', [x, g.float64(0)]);
  const divisor = g.where(isZero, g.float64(1), x);
  return g.where(isZero, g.float64(1), g.div(g.op('Sin', [x]), divisor));
}

/**
 * The weights of an axis.
 *
 * @param positions - Positions of a block. Those after the last one repeat it.
 * @param chunk - Pixels of a chunk: windows begin and end with one.
 */
export function blockKernel(
  g: Formula,
  axis: Axis,
  filter: Filter,
  isTorch: boolean,
  { positions, chunk }: { readonly positions: number; readonly chunk: number },
): BlockKernel {
  const windows = windowsOf(g, axis, filter);
  const { from, to } = axis;
  const blocks = g.divUp(g.sub(to, from), positions);
  const numbers = g.add(g.range(g.mul(blocks, g.int(positions))), from);
  const last = g.sub(to, g.int(1));
  const grid = g.op('Reshape', [g.min(numbers, last), g.int([-1, positions, 1])]);
  const places = placesOf(g, grid, axis, windows);
  const { inSize } = axis;
  const hasRatios = filter === 'bilinear' || filter === 'bicubic';
  const coarse = hasRatios ? isCoarse(g, inSize) : undefined;
  // Coarse floats put a window one pixel off.
  const slack = coarse === undefined ? g.int(0) : g.cast(coarse, 'int64');
  const started = g.cast(g.slice(places.start, [{ axis: 1, from: 0, to: 1 }]), 'int64');
  const ended = g.cast(g.slice(places.end, [{ axis: 1, from: positions - 1, to: positions }]), 'int64');
  const starts = g.max(g.sub(started, slack), g.int(0));
  const ends = g.min(g.add(ended, slack), inSize);
  const first = g.op('ReduceMin', [starts], { keepdims: 0 });
  const chunks = g.div(g.sub(starts, first), g.int(chunk));
  const begin = g.add(g.mul(chunks, g.int(chunk)), first);
  const windowChunks = g.divUp(g.largest(g.sub(ends, begin)), chunk);
  const window = g.range(g.mul(windowChunks, g.int(chunk)));
  const numbered = g.add(begin, g.unsqueeze(window, [0, 1]));
  const one = isTorch ? torchOne(g, axis, filter, windows) : g.float64(2 ** BITS);
  const inDouble = (b: Formula): Name => {
    const exact = weigh(b, filter, b.cast(numbered, 'float64'), places, windows);
    return b.cast(wholeWeights(b, exact, one), 'float32');
  };
  const inDigits = (b: Formula): Name => {
    const ratios = { ...axis, positions: grid, pixels: numbered };
    return exactWeights(b, filter as RationalFilter, ratios, b.cast(b.div(one, b.float64(STEPS)), 'float32'));
  };
  const whole = coarse === undefined ? inDouble(g) : g.branch(coarse, inDigits, inDouble);
  return {
    first,
    last: g.largest(ends),
    chunks: g.op('Reshape', [chunks, g.int([-1])]),
    windowChunks,
    weights: isTorch ? g.mul(whole, g.cast(g.div(g.float64(2 ** BITS), one), 'float32')) : whole,
  };
}

/** Rounded half away from zero. */
function wholeWeights(g: Formula, exact: Name, one: Name): Name {
  const scaled = g.mul(exact, one);
  return g.mul(g.op('Sign', [scaled]), g.floor(g.add(g.op('Abs', [scaled]), g.float64(0.5))));
}

/** One with the most fractional bits with which the largest weight of the whole axis fits 16 bits. */
function torchOne(g: Formula, axis: Axis, filter: Filter, windows: Windows): Name {
  const positions = g.unsqueeze(g.range(axis.outSize), [1]);
  const places = placesOf(g, positions, axis, windows);
  const taps = g.add(g.mul(g.cast(g.op('Ceil', [windows.support]), 'int64'), g.int(2)), g.int(1));
  const pixels = g.add(places.start, g.cast(g.unsqueeze(g.range(taps), [0]), 'float64'));
  const most = g.largest(weigh(g, filter, pixels, places, windows));
  const powers = Array.from({ length: BITS }, (_, bit) => 2 ** (bit + 1));
  const rounded = g.floor(g.add(g.mul(most, g.float64(powers)), g.float64(0.5)));
  const fits = g.cast(g.op('Less', [rounded, g.float64(TORCH_LIMIT)]), 'int64');
  const bits = g.op('ReduceSum', [fits, g.int([0])], { keepdims: 0 });
  return g.gather(g.float64([1, ...powers]), bits, 0);
}

/** The pixel that each position of an axis copies: an int64 list. */
export function nearestPixels(g: Formula, { inSize, outSize, from, to }: Axis, isTorch: boolean): Name {
  const last = g.sub(inSize, g.int(1));
  if (isTorch) {
    const scale = g.div(g.cast(inSize, 'float32'), g.cast(outSize, 'float32'));
    const positions = g.add(g.cast(g.add(g.range(g.sub(to, from)), from), 'float32'), g.float32(0.5));
    return g.min(g.cast(g.floor(g.mul(positions, scale)), 'int64'), last);
  }
  // Pillow adds up the positions, with their rounding errors.
  const scale = g.div(g.cast(inSize, 'float64'), g.cast(outSize, 'float64'));
  const first = g.unsqueeze(g.mul(scale, g.float64(0.5)), [0]);
  const steps = g.op('Expand', [scale, g.list([g.sub(to, g.int(1))])]);
  const places = g.op('CumSum', [g.op('Concat', [first, steps], { axis: 0 }), g.int(0)]);
  const picked = g.slice(places, [{ axis: 0, from, to }]);
  return g.min(g.floorToInt(picked), last);
}

/** Where positions lie between two pixels, for torch's bilinear resize without antialias: float32 weights of the second one. */
export function betweenPixels(
  g: Formula,
  { inSize, outSize, from, to }: Axis,
): { readonly first: Name; readonly second: Name; readonly weight: Name } {
  const scale = g.cast(g.div(g.cast(inSize, 'float32'), g.cast(outSize, 'float32')), 'float64');
  const positions = g.add(g.cast(g.add(g.range(g.sub(to, from)), from), 'float64'), g.float64(0.5));
  const exact = g.sub(g.mul(scale, positions), g.float64(0.5));
  const place = g.max(g.cast(exact, 'float32'), g.float32(0));
  const last = g.sub(inSize, g.int(1));
  const first = g.min(g.cast(g.floor(place), 'int64'), last);
  return {
    first,
    second: g.min(g.add(first, g.int(1)), last),
    weight: g.sub(place, g.cast(first, 'float32')),
  };
}
