/** Compares two vectors of one image. */
import type { Tensor } from './tensor.js';
import { widen } from './widen.js';

/** How far two vectors are apart. */
export interface VectorDifference {
  readonly cosine: number;
  /** The largest absolute difference of an element. */
  readonly maxDifference: number;
}

/**
 * Compares two vectors of the same length, in float64. The cosine is 1 for equal vectors, also for two zero vectors, and 0 if only
 * one vector is zero. One element has no direction, and its cosine would be 1 for any two scores: the smaller divided by the larger
 * stands in for it. With NaN or infinite elements, the result can be NaN.
 */
export function compareVectors(x: Float32Array, y: Float32Array): VectorDifference {
  let [product, squaresX, squaresY, maxDifference] = [0, 0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    const [p, q] = [x[i]!, y[i]!];
    product += p * q;
    squaresX += p * p;
    squaresY += q * q;
    maxDifference = Math.max(maxDifference, Math.abs(p - q));
  }
  if (maxDifference === 0) return { cosine: 1, maxDifference };
  if (x.length === 1) {
    const [p, q] = [x[0]!, y[0]!];
    return { cosine: Math.abs(p) < Math.abs(q) ? p / q : q / p, maxDifference };
  }
  const length = Math.sqrt(squaresX) * Math.sqrt(squaresY);
  return { cosine: length === 0 ? 0 : Math.max(-1, Math.min(1, product / length)), maxDifference };
}

/** The cosine of two tensors of the same dims. Elements that are NaN or infinite in the same way in both do not count; others make it 0. */
export function cosineOfTensors(features: Tensor, exact: Tensor): number {
  const [x, y] = [vectorOf(features), vectorOf(exact)];
  const { cosine } = compareVectors(x, y);
  if (Number.isFinite(cosine)) return cosine;
  for (let i = 0; i < x.length; i++) if (!Number.isFinite(x[i]) && Object.is(x[i], y[i])) x[i] = y[i] = 0;
  const { cosine: ofFinite } = compareVectors(x, y);
  return Number.isFinite(ofFinite) ? ofFinite : 0;
}

/** A copy of the elements as float32. */
function vectorOf({ dtype, data }: Tensor): Float32Array {
  return Array.isArray(data) ? new Float32Array(0) : widen(dtype, data.slice().buffer as ArrayBuffer);
}
