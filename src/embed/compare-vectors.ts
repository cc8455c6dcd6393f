/** Compares two vectors of one image. */

/** How far two vectors are apart. */
export interface VectorDifference {
  readonly cosine: number;
  /** The largest absolute difference of an element. */
  readonly maxDifference: number;
}

/**
 * Compares two vectors of the same length, in float64. The cosine is 1 for equal vectors, also for two zero vectors, and 0 if only
 * one vector is zero. With NaN or infinite elements, the result can be NaN.
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
  const length = Math.sqrt(squaresX) * Math.sqrt(squaresY);
  return { cosine: length === 0 ? 0 : Math.max(-1, Math.min(1, product / length)), maxDifference };
}
