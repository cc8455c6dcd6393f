/** Groups of rows that are nearly equal, for every threshold at once. */
import type { Distances } from './cosine.js';

/** The shortest edges that connect all rows. Its edges up to a distance connect exactly the groups at that distance. */
export interface Forest {
  /** Two rows per edge, shortest edge first. */
  readonly pairs: Uint16Array;
  readonly distances: Float32Array;
}

/** Near-duplicates are closer than this share of the median distance… */
const SHARE_OF_TYPICAL = 0.05;
/** …and never farther apart than this, which is a cosine of 0.98. */
const MAX_DISTANCE = 0.02;
/** Pairs sampled for the median; a hundred thousand determine it to one percent. */
const MAX_PAIRS = 100_000;

/** The minimum spanning tree of the distances (Prim 1957), whose edges are single linkage's merges. */
export function spanForest({ rows, data }: Distances): Forest {
  const nearest = new Float32Array(rows).fill(Infinity);
  const parent = new Uint16Array(rows);
  const isIn = new Uint8Array(rows);
  const edges: (readonly [from: number, to: number, distance: number])[] = [];
  for (let row = 0, joined = 1; joined < rows; joined++) {
    isIn[row] = 1;
    let next = -1;
    for (let other = 0; other < rows; other++) {
      if (isIn[other] === 1) continue;
      const distance = data[row * rows + other]!;
      if (distance < nearest[other]!) {
        nearest[other] = distance;
        parent[other] = row;
      }
      if (next === -1 || nearest[other]! < nearest[next]!) next = other;
    }
    edges.push([parent[next]!, next, nearest[next]!]);
    row = next;
  }
  edges.sort(([, a, near], [, b, far]) => near - far || a - b);
  return {
    pairs: Uint16Array.from(edges.flatMap(([from, to]) => [from, to])),
    distances: Float32Array.from(edges, ([, , distance]) => distance),
  };
}

/**
 * The default distance up to which two rows count as near-duplicates. It depends on the median distance, because the features of
 * some networks all point in nearly the same direction.
 */
export function suggestDistance({ rows, data }: Distances): number {
  const pairs = (rows * (rows - 1)) / 2;
  if (pairs === 0) return MAX_DISTANCE;
  const step = Math.max(1, Math.floor(pairs / MAX_PAIRS));
  const sample: number[] = [];
  let at = 0;
  for (let i = 0; i < rows; i++)
    for (let j = i + 1; j < rows; j++) if (at++ % step === 0) sample.push(data[i * rows + j]!);
  sample.sort((a, b) => a - b);
  return Math.min(MAX_DISTANCE, SHARE_OF_TYPICAL * sample[Math.floor(sample.length / 2)]!);
}
