/** The weights of Pillow's resampling, in fixed point. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence). */

/** Interpolations that torchvision's Resize takes by these names. */
export type Interpolation = 'bilinear' | 'bicubic';

/** Weights of one axis for a range of output positions: which inputs each one reads, and how much of them. */
export interface Kernel {
  /** Input where each position's first weight applies; never decreases. */
  readonly first: Int32Array;
  /** Weights per position, at least 1. */
  readonly counts: Int32Array;
  /** `stride` weights per position, of which the first `counts` are meant: 2^22 is 1. */
  readonly weights: Int32Array;
  readonly stride: number;
}

/** Bits behind the binary point of a weight. */
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

/** What a kernel depends on. */
interface KernelShape {
  /** Pixels along the axis, before and after. */
  readonly inSize: number;
  readonly outSize: number;
  /** What is resized to `outSize`, in input pixels; `inSize` but for an image whose last pixel the decoder has left out. */
  readonly span: number;
  /** Output positions: from this one … */
  readonly from: number;
  /** … to before this one. */
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

/** Photos of a folder often share a size: two axes each of landscape and portrait, and as many again. */
const MAX_KEPT = 8;
/** Longer ones are rare, and would hold memory: 256 KiB of weights. */
const MAX_KEPT_WEIGHTS = 65_536;
const kept = new Map<string, Kernel>();

/** The kernel of an axis, made or from the last ones used. It is shared: leave it as it is. */
export function kernelOf(shape: KernelShape): Kernel {
  const { inSize, outSize, span, from, to, interpolation } = shape;
  const key = `${inSize} ${outSize} ${span} ${from} ${to} ${interpolation}`;
  let kernel = kept.get(key);
  // Taken out and put in again, so that the first of the map is the one unused for longest.
  if (kernel) kept.delete(key);
  else kernel = createKernel(shape);
  if (kernel.weights.length <= MAX_KEPT_WEIGHTS) kept.set(key, kernel);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
  return kernel;
}
