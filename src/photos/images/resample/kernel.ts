/**
 * The fixed-point weights of resampling, as Pillow and torch compute them. Algorithms: Pillow, src/libImaging/Resample.c and
 * Geometry.c (MIT-CMU licence); torch, UpSampleKernel.cpp (BSD licence).
 */

/** Interpolations, by Pillow's names. */
export const INTERPOLATIONS = ['nearest', 'box', 'bilinear', 'hamming', 'bicubic', 'lanczos'] as const;
export type Interpolation = (typeof INTERPOLATIONS)[number];

/** How pixels are resampled. */
export interface Sampling {
  readonly interpolation: Interpolation;
  /**
   * Whose integer weights: Pillow's of 22 fractional bits, or those of torch's uint8 kernels, which fit 16 bits; `pillow-13` takes
   * the passes in that version's order.
   */
  readonly resampler: 'pillow' | 'pillow-13' | 'torch';
  /** Whether a smaller image averages all pixels under each of its own; true unless given. */
  readonly antialias?: boolean;
}

/** The weights of one axis for a range of output positions: which inputs each position reads, and with which weights. */
export interface Kernel {
  /** For each position, the input that its first weight applies to; never decreases. */
  readonly first: Int32Array;
  /** For each position, the number of its weights, at least 1. */
  readonly counts: Int32Array;
  /** `stride` weights per position, of which the first `counts` are used; 2^22 means 1. */
  readonly weights: Int32Array;
  readonly stride: number;
}

/** Fractional bits of a weight. */
export const PRECISION_BITS: number = 32 - 8 - 2;

interface Filter {
  readonly support: number;
  weight(x: number): number;
}

/** Pillow writes these two as numbers of single precision. */
const HAMMING_SHARES = [Math.fround(0.54), Math.fround(0.46)] as const;

const FILTERS: Readonly<Record<Exclude<Interpolation, 'nearest'>, Filter>> = {
  box: { support: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: {
    support: 1,
    weight(x) {
      const at = Math.abs(x);
      return at < 1 ? 1 - at : 0;
    },
  },
  hamming: {
    support: 1,
    weight(x) {
      const at = Math.abs(x) * Math.PI;
      if (at === 0) return 1;
      return at < Math.PI ? (Math.sin(at) / at) * (HAMMING_SHARES[0] + HAMMING_SHARES[1] * Math.cos(at)) : 0;
    },
  },
  bicubic: {
    support: 2,
    weight(x) {
      const a = -0.5;
      const at = Math.abs(x);
      if (at < 1) return ((a + 2) * at - (a + 3)) * at * at + 1;
      return at < 2 ? (((at - 5) * at + 8) * at - 4) * a : 0;
    },
  },
  lanczos: {
    support: 3,
    weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0),
  },
};

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

interface KernelShape extends Sampling {
  /** Pixels along the axis, before and after. */
  readonly inSize: number;
  readonly outSize: number;
  /** Length that is resized to `outSize`, in input pixels; not `inSize` if the decoder dropped part of the last pixel. */
  readonly span: number;
  /** The first output position. */
  readonly from: number;
  /** The position after the last one. */
  readonly to: number;
}

function createKernel(shape: KernelShape): Kernel {
  if (shape.interpolation === 'nearest') return pickNearest(shape);
  const windows = windowsOf(shape, FILTERS[shape.interpolation]);
  const bits = shape.resampler === 'torch' ? torchBits(windows, shape.outSize) : PRECISION_BITS;
  const { from, to } = shape;
  const { stride, exact } = windows;
  const first = new Int32Array(to - from);
  const counts = new Int32Array(to - from);
  const weights = new Int32Array((to - from) * stride);
  for (let position = from; position < to; position++) {
    const { start, count } = windows.weigh(position);
    const at = position - from;
    first[at] = start;
    counts[at] = count;
    for (let i = 0; i < count; i++)
      // Fewer bits give the same sums if the weights are shifted.
      weights[at * stride + i] = roundAway(exact[i]! * (1 << bits)) << (PRECISION_BITS - bits);
  }
  return { first, counts, weights, stride };
}

interface Windows {
  /** At most this many weights belong to a position. */
  readonly stride: number;
  /** The weights of the position that was weighed last; their sum is 1. */
  readonly exact: Float64Array;
  weigh(position: number): { readonly start: number; readonly count: number };
}

/** The inputs that each output position reads. */
function windowsOf({ span, inSize, outSize }: KernelShape, filter: Filter): Windows {
  const scale = span / outSize;
  const filterScale = Math.max(scale, 1);
  const support = filter.support * filterScale;
  const inverse = 1 / filterScale;
  const stride = Math.ceil(support) * 2 + 1;
  const exact = new Float64Array(stride);
  return {
    stride,
    exact,
    weigh(position) {
      const center = (position + 0.5) * scale;
      const start = Math.max(0, Math.trunc(center - support + 0.5));
      const count = Math.min(inSize, Math.trunc(center + support + 0.5)) - start;
      let sum = 0;
      for (let i = 0; i < count; i++) sum += exact[i] = filter.weight((i + start - center + 0.5) * inverse);
      if (sum !== 0) for (let i = 0; i < count; i++) exact[i] = exact[i]! / sum;
      return { start, count };
    },
  };
}

/** Fractional bits of torch's weights: the most with which the largest weight of the axis fits 16 bits. */
function torchBits(windows: Windows, outSize: number): number {
  let most = 0;
  for (let position = 0; position < outSize; position++) {
    const { count } = windows.weigh(position);
    for (let i = 0; i < count; i++) most = Math.max(most, windows.exact[i]!);
  }
  let bits = 0;
  while (bits < PRECISION_BITS && Math.trunc(0.5 + most * 2 ** (bits + 1)) < 2 ** 15) bits++;
  return bits;
}

function roundAway(value: number): number {
  return Math.trunc(value < 0 ? value - 0.5 : value + 0.5);
}

/** The kernel that copies the nearest input. */
function pickNearest({ inSize, outSize, span, from, to, resampler }: KernelShape): Kernel {
  const first = new Int32Array(to - from);
  const place = (position: number, at: number): void => {
    if (position >= from) first[position - from] = Math.min(Math.trunc(at), inSize - 1);
  };
  const scale = span / outSize;
  if (resampler === 'torch') {
    const rounded = Math.fround(Math.fround(span) / Math.fround(outSize));
    for (let position = from; position < to; position++)
      place(position, Math.fround((position + 0.5) * rounded));
  } else {
    // Pillow adds up the positions, with their rounding errors.
    for (let position = 0, at = scale * 0.5; position < to; position++, at += scale) place(position, at);
  }
  const ones = new Int32Array(to - from).fill(1);
  return { first, counts: ones, weights: ones.map(() => 1 << PRECISION_BITS), stride: 1 };
}

/** Kernels to keep. Photos in a folder often share a size: two axes each for landscape and portrait, times two. */
const MAX_KEPT = 8;
/** Larger kernels are rare and not kept: this is 256 KiB of weights. */
const MAX_KEPT_WEIGHTS = 65_536;
const kept = new Map<string, Kernel>();

/** The kernel of an axis, new or kept from recent calls. It is shared: do not change it. */
export function kernelOf(shape: KernelShape): Kernel {
  const { inSize, outSize, span, from, to, interpolation, resampler } = shape;
  const key = `${inSize} ${outSize} ${span} ${from} ${to} ${interpolation} ${resampler}`;
  let kernel = kept.get(key);
  // Removed and added again, so that the map's first entry is the least recently used.
  if (kernel) kept.delete(key);
  else kernel = createKernel(shape);
  if (kernel.weights.length <= MAX_KEPT_WEIGHTS) kept.set(key, kernel);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
  return kernel;
}
