/** The fixed-point weights of Pillow's resampling. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence). */

/** Interpolations, by the names of torchvision's Resize. */
export type Interpolation = 'bilinear' | 'bicubic';

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

const FILTERS: Readonly<Record<Interpolation, Filter>> = {
  bilinear: {
    support: 1,
    weight(x) {
      const at = Math.abs(x);
      return at < 1 ? 1 - at : 0;
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
};

/** The parameters of a kernel. */
interface KernelShape {
  /** Pixels along the axis, before and after. */
  readonly inSize: number;
  readonly outSize: number;
  /** Length that is resized to `outSize`, in input pixels; not `inSize` if the decoder dropped part of the last pixel. */
  readonly span: number;
  /** The first output position. */
  readonly from: number;
  /** The position after the last one. */
  readonly to: number;
  readonly interpolation: Interpolation;
}

function createKernel({ inSize, outSize, span, from, to, interpolation }: KernelShape): Kernel {
  const filter = FILTERS[interpolation];
  const scale = span / outSize;
  const filterScale = Math.max(scale, 1);
  const support = filter.support * filterScale;
  const inverse = 1 / filterScale;
  const stride = Math.ceil(support) * 2 + 1;
  const first = new Int32Array(to - from);
  const counts = new Int32Array(to - from);
  const weights = new Int32Array((to - from) * stride);
  const exact = new Float64Array(stride);
  for (let position = from; position < to; position++) {
    const center = (position + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const count = Math.min(inSize, Math.trunc(center + support + 0.5)) - start;
    let sum = 0;
    for (let i = 0; i < count; i++) sum += exact[i] = filter.weight((i + start - center + 0.5) * inverse);
    const at = position - from;
    first[at] = start;
    counts[at] = count;
    for (let i = 0; i < count; i++) {
      const weight = (sum === 0 ? exact[i]! : exact[i]! / sum) * (1 << PRECISION_BITS);
      weights[at * stride + i] = Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
  }
  return { first, counts, weights, stride };
}

/** Kernels to keep. Photos in a folder often share a size: two axes each for landscape and portrait, times two. */
const MAX_KEPT = 8;
/** Larger kernels are rare and not kept: this is 256 KiB of weights. */
const MAX_KEPT_WEIGHTS = 65_536;
const kept = new Map<string, Kernel>();

/** The kernel of an axis, new or kept from recent calls. It is shared: do not change it. */
export function kernelOf(shape: KernelShape): Kernel {
  const { inSize, outSize, span, from, to, interpolation } = shape;
  const key = `${inSize} ${outSize} ${span} ${from} ${to} ${interpolation}`;
  let kernel = kept.get(key);
  // Removed and added again, so that the map's first entry is the least recently used.
  if (kernel) kept.delete(key);
  else kernel = createKernel(shape);
  if (kernel.weights.length <= MAX_KEPT_WEIGHTS) kept.set(key, kernel);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
  return kernel;
}
