/**
 * How near a row is to a query: exactly, and as an upper bound from what the graph computed in float32.
 *
 * Internally every metric is larger for nearer rows: the cosine, the product, or the negative squared distance.
 */

/** cosine: of the angle between the vectors; dot: their product; l2: their Euclidean distance. */
export const METRICS = ['cosine', 'dot', 'l2'] as const;
export type Metric = (typeof METRICS)[number];

/** A query with its square and its norm. */
export interface Query {
  readonly vector: Float32Array;
  /** Sum of the squares, in double precision. */
  readonly square: number;
  readonly norm: number;
}

export function createQuery(vector: Float32Array): Query {
  let square = 0;
  for (const value of vector) square += value * value;
  return { vector, square, norm: Math.sqrt(square) };
}

/** Unit roundoff of float32. */
const ROUNDOFF = 2 ** -24;
/** GPUs may round the factors of a product to TF32. */
const ROUNDOFF_TF32 = 2 ** -11;
/** Outside this range, sums of squares in float32 overflow or lose digits. */
const LEAST_SQUARE = 1e-30;
const MOST_SQUARE = 1e30;

/**
 * The largest error of a float32 sum of products, relative to the product of both norms. It is twice the usual bound for any order of
 * summation (Higham, "Accuracy and Stability of Numerical Algorithms", §3.1).
 */
export function slackOf(elements: number, isOnCpu: boolean): number {
  const sum = (elements + 8) * ROUNDOFF;
  if (sum > 0.25) return Infinity;
  return 2 * (isOnCpu ? sum : sum + 2 * ROUNDOFF_TF32);
}

/**
 * An upper bound of the exact value.
 *
 * @param dot - Product of the row with the query's unit vector, in float32.
 * @param rowSquare - Sum of the row's squares, in float32.
 */
export function upperBound(
  metric: Metric,
  { norm, square }: Query,
  dot: number,
  rowSquare: number,
  slack: number,
): number {
  if (!(rowSquare > LEAST_SQUARE && rowSquare < MOST_SQUARE)) return Infinity;
  const rowNorm = Math.sqrt(rowSquare);
  if (metric === 'cosine') return dot / rowNorm + 2 * slack;
  const most = (dot + slack * rowNorm) * norm;
  if (metric === 'dot') return most + 1e-12 * norm * rowNorm;
  return 2 * most - rowSquare - square + 2 * slack * (rowSquare + norm * rowNorm) + 1e-12 * square;
}

/** A lower bound of the exact value, as {@link upperBound} is an upper one. */
export function lowerBound(
  metric: Metric,
  { norm, square }: Query,
  dot: number,
  rowSquare: number,
  slack: number,
): number {
  if (!(rowSquare > LEAST_SQUARE && rowSquare < MOST_SQUARE)) return -Infinity;
  const rowNorm = Math.sqrt(rowSquare);
  if (metric === 'cosine') return dot / rowNorm - 2 * slack;
  const least = (dot - slack * rowNorm) * norm;
  if (metric === 'dot') return least - 1e-12 * norm * rowNorm;
  return 2 * least - rowSquare - square - 2 * slack * (rowSquare + norm * rowNorm) - 1e-12 * square;
}

/**
 * The exact value of the metric, in double precision. It sums in order, so that equal rows have equal values. It is not finite for
 * a row with a NaN or an infinity.
 */
export function exactValue(metric: Metric, query: Query, rows: Float32Array, offset: number): number {
  const { vector } = query;
  const { length } = vector;
  let sum = 0;
  if (metric === 'l2') {
    for (let i = 0; i < length; i++) {
      const difference = rows[offset + i]! - vector[i]!;
      sum -= difference * difference;
    }
    return sum;
  }
  for (let i = 0; i < length; i++) sum += rows[offset + i]! * vector[i]!;
  if (metric === 'dot') return sum;
  let square = 0;
  for (let i = 0; i < length; i++) square += rows[offset + i]! ** 2;
  if (!Number.isFinite(square)) return NaN;
  if (square === 0 || query.norm === 0) return 0;
  return Math.max(-1, Math.min(1, sum / (Math.sqrt(square) * query.norm)));
}

/** The score that users see: a distance for `l2`. */
export function scoreOf(metric: Metric, value: number): number {
  // Without a negative zero.
  return metric === 'l2' ? Math.sqrt(0 - value) : value;
}
