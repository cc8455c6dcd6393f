/** Nearest neighbours, exactly. */
import type { Distances } from './cosine.js';
import { Largest } from './largest.js';

/** The nearest other rows of each row. */
export interface Neighbours {
  /** Number of neighbours of each row. */
  readonly count: number;
  /** `rows × count`, nearest first; ties go to the earlier row. */
  readonly indices: Uint16Array;
  readonly distances: Float32Array;
}

/** Finds the nearest other rows of each row, `wanted` at most. */
export function findNeighbours({ rows, data }: Distances, wanted: number): Neighbours {
  const count = Math.max(0, Math.min(wanted, rows - 1));
  const indices = new Uint16Array(rows * count);
  const distances = new Float32Array(rows * count);
  for (let row = 0; row < rows; row++) {
    const nearest = new Largest(count);
    for (let other = 0; other < rows; other++)
      if (other !== row) nearest.add(other, -data[row * rows + other]!);
    indices.set(nearest.indices, row * count);
    const own = nearest.values.map((value) => 0 - value);
    distances.set(own, row * count);
  }
  return { count, indices, distances };
}
