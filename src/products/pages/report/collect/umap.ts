/** UMAP: a map that keeps neighbours close. */
import { createRandom } from '../../../../base/random.js';
import { findNeighbours } from '../../../../onnx/tensor/vectors/neighbours.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import type { Distances } from '../../../../onnx/tensor/vectors/cosine.js';

/** UMAP's `n_neighbors`, the row itself included. */
const NEIGHBOURS = 15;
/** Half the side of the square that the layout starts in; the value is the reference implementation's. */
const START_EXTENT = 10;
/** Without noise, rows that start in the same place would stay together. */
const START_NOISE = 1e-3;
/** Widest empty gap, in UMAP's unit, in which points within 1 are near. */
const MAX_GAP = 1.2;
/** With fewer rows there are no neighbourhoods to keep. */
export const MIN_UMAP_ROWS = 5;

/**
 * Lays rows out in a plane by UMAP (McInnes, Healy, Melville 2018; umap-js) from their exact neighbours, with a fixed seed.
 *
 * @param start - x and y of each row at the start. Starting from principal components arranges the islands as in the data and not
 * at random (Kobak, Linderman 2021).
 * @returns x and y of each row; `undefined` for fewer than {@link MIN_UMAP_ROWS} rows.
 */
export async function projectToUmap(
  distances: Distances,
  start: Float64Array,
  breathe: Breathe,
  onRound: (done: number, of: number) => void = () => undefined,
): Promise<Float64Array | undefined> {
  const { rows } = distances;
  if (rows < MIN_UMAP_ROWS) return undefined;
  const { UMAP } = await import('umap-js');
  const { count, indices, distances: near } = findNeighbours(distances, Math.min(NEIGHBOURS - 1, rows - 2));
  const random = createRandom(2);
  const umap = new UMAP({ nComponents: 2, nNeighbors: count + 1, minDist: 0.1, random });
  const perRow = (own: (row: number) => number, others: ArrayLike<number>): number[][] =>
    Array.from({ length: rows }, (_, row) => [
      own(row),
      ...Array.from({ length: count }, (__, i) => others[row * count + i]!),
    ]);
  umap.setPrecomputedKNN(
    perRow((row) => row, indices),
    perRow(() => 0, near),
  );
  // Given the neighbours, UMAP reads only the number of rows.
  const epochs = umap.initializeFit(Array.from({ length: rows }, () => [0]));
  const scale = START_EXTENT / (start.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1);
  // These are the arrays that umap-js updates in place.
  umap.getEmbedding().forEach((place, row) => {
    for (const axis of [0, 1]) place[axis] = start[row * 2 + axis]! * scale + (random() - 0.5) * START_NOISE;
  });
  for (let epoch = 0; epoch < epochs; epoch++) {
    await breathe();
    onRound(epoch, epochs);
    umap.step();
  }
  const points = Float64Array.from(umap.getEmbedding().flat());
  for (const axis of [0, 1]) closeGaps(points, axis);
  return points;
}

/** Shortens the gaps along an axis, because islands that share no neighbour drift apart without end. */
function closeGaps(points: Float64Array, axis: number): void {
  const order = Array.from({ length: points.length / 2 }, (_, row) => row * 2 + axis).toSorted(
    (a, b) => points[a]! - points[b]!,
  );
  let before = points[order[0]!]!;
  let taken = 0;
  for (const at of order) {
    taken += Math.max(0, points[at]! - before - MAX_GAP);
    before = points[at]!;
    points[at] = before - taken;
  }
}
