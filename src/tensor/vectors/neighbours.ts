/** Nearest neighbours, exactly. */
import type { Distances } from './cosine.js';

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
  for (let row = 0; row < rows && count > 0; row++) {
    const start = row * count;
    let found = 0;
    for (let other = 0; other < rows; other++) {
      const distance = data[row * rows + other]!;
      if (other === row || (found === count && distance >= distances[start + count - 1]!)) continue;
      let place = found < count ? found++ : count - 1;
      while (place > 0 && distances[start + place - 1]! > distance) {
        distances[start + place] = distances[start + place - 1]!;
        indices[start + place] = indices[start + place - 1]!;
        place--;
      }
      distances[start + place] = distance;
      indices[start + place] = other;
    }
  }
  return { count, indices, distances };
}
