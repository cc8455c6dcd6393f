/** Groups of vectors that point the same way. */
import { createRandom } from '../../../../base/random.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import type { Matrix } from '../../../../onnx/tensor/vectors/cosine.js';

const [LEAST, MOST] = [2, 12];
const ROUNDS = 12;

/**
 * Assigns each row to a cluster: spherical k-means (Dhillon, Modha 2001), started by k-means++ with a fixed seed. The largest cluster
 * is 0.
 *
 * @param unit - Rows of length 1.
 */
export async function findClusters({ rows, columns, data }: Matrix, breathe: Breathe): Promise<Uint16Array> {
  const count = Math.min(rows, Math.max(LEAST, Math.min(MOST, Math.round(Math.sqrt(rows / 8)))));
  const random = createRandom(3);
  const centres = new Float64Array(count * columns);
  const productOf = (row: number, centre: number): number => {
    let sum = 0;
    for (let c = 0; c < columns; c++) sum += data[row * columns + c]! * centres[centre * columns + c]!;
    return sum;
  };
  const setCentre = (centre: number, row: number): void =>
    centres.set(data.subarray(row * columns, (row + 1) * columns), centre * columns);
  const far = new Float64Array(rows).fill(Infinity);
  if (rows > 0) setCentre(0, Math.floor(random() * rows));
  for (let centre = 1; centre < count; centre++) {
    let total = 0;
    for (let row = 0; row < rows; row++) {
      far[row] = Math.min(far[row]!, Math.max(0, 1 - productOf(row, centre - 1)));
      total += far[row]!;
    }
    let left = random() * total;
    let chosen = 0;
    while (chosen < rows - 1 && (left -= far[chosen]!) > 0) chosen++;
    setCentre(centre, chosen);
  }
  const clusters = new Uint16Array(rows);
  for (let round = 0; round < ROUNDS; round++) {
    for (let row = 0; row < rows; row++) {
      await breathe();
      let [best, most] = [0, -Infinity];
      for (let centre = 0; centre < count; centre++) {
        const product = productOf(row, centre);
        if (product > most) [best, most] = [centre, product];
      }
      clusters[row] = best;
    }
    centres.fill(0);
    for (let row = 0; row < rows; row++)
      for (let c = 0; c < columns; c++) centres[clusters[row]! * columns + c]! += data[row * columns + c]!;
    for (let centre = 0; centre < count; centre++) {
      const own = centres.subarray(centre * columns, (centre + 1) * columns);
      const length = Math.sqrt(own.reduce((sum, value) => sum + value * value, 0)) || 1;
      own.forEach((value, c) => (own[c] = value / length));
    }
  }
  return bySize(clusters, count);
}

/** Numbers clusters by their size. */
function bySize(clusters: Uint16Array, count: number): Uint16Array {
  const sizes = Array.from({ length: count }, () => 0);
  for (const cluster of clusters) sizes[cluster]!++;
  const order = sizes.map((_, cluster) => cluster).toSorted((a, b) => sizes[b]! - sizes[a]! || a - b);
  const places = new Map(order.map((cluster, place) => [cluster, place]));
  return clusters.map((cluster) => places.get(cluster)!);
}
