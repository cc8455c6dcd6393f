/** UMAP: a map that keeps neighbours together. */
import type { Distances } from './cosine.js';
import type { Breathe } from './breathe.js';
import { findNeighbours } from './neighbours.js';
import { createRandom } from './random.js';

/** UMAP's `n_neighbors`, the row itself included. */
const NEIGHBOURS = 15;
/** Fewer rows have no neighbourhoods to keep. */
export const MIN_UMAP_ROWS = 5;

/**
 * Lays rows out in a plane by UMAP (McInnes, Healy, Melville 2018; umap-js) from their exact neighbours, with a fixed seed.
 *
 * @returns x and y of each row; undefined for fewer than {@link MIN_UMAP_ROWS} rows.
 */
export async function projectToUmap(
  distances: Distances,
  breathe: Breathe,
): Promise<Float64Array | undefined> {
  const { rows } = distances;
  if (rows < MIN_UMAP_ROWS) return undefined;
  const { UMAP } = await import('umap-js');
  const { count, indices, distances: near } = findNeighbours(distances, NEIGHBOURS - 1);
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
  // With neighbours given, of the rows themselves only their number is read.
  const epochs = umap.initializeFit(Array.from({ length: rows }, () => [0]));
  for (let epoch = 0; epoch < epochs; epoch++) {
    await breathe();
    umap.step();
  }
  return Float64Array.from(umap.getEmbedding().flat());
}
