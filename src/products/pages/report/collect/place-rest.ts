/** The images beyond those that are compared with each other: each takes its place from the compared ones that it is nearest to. */
import { Largest } from '../../../../onnx/tensor/vectors/largest.js';
import { poolRow } from '../../../../onnx/tensor/vectors/row-layout.js';
import { toUnitLength } from '../../../../onnx/tensor/vectors/cosine.js';
import { openRowSession, rowsTensor } from '../../../linear/row-session.js';
import { queryGraph } from '../../../linear/row-graphs.js';
import type { Dataset } from '../../../../datasets/files/dataset.js';
import type { CollectedOutput } from './collect-output.js';
import type { Inputs } from './collect-inputs.js';

/** Rows of a block: its products with 4,000 compared rows take 16 MB. */
const BLOCK_ROWS = 1024;

/** Places on the maps, x and y of each image in turn. */
export interface Maps {
  readonly pca: Float64Array;
  readonly umap: Float64Array | undefined;
}

/** The images beyond the compared ones, in the order of rows. All lists have that order. */
export interface Rest {
  readonly members: readonly number[];
  readonly pca: readonly number[];
  readonly umap: readonly number[];
  /** The nearest compared images, `count` each, with their cosine distances. */
  readonly neighbours: readonly number[];
  readonly distances: readonly number[];
  readonly lengths: readonly number[];
}

/**
 * Places the images that were not compared with each other. PCA is exact. In UMAP an image lies between its nearest compared images,
 * the nearer the more.
 *
 * @param count - Nearest images to find for each.
 * @param onRows - Called with the number of rows read so far.
 */
export async function placeRest(
  dataset: Dataset,
  { images, live }: Inputs,
  { key, layout, members, vectors }: CollectedOutput,
  maps: Maps,
  count: number,
  signal: AbortSignal | undefined,
  onRows: (rows: number) => void,
): Promise<Rest> {
  const rest = { members: [], pca: [], umap: [], neighbours: [], distances: [], lengths: [] } as {
    [Name in keyof Rest]: number[];
  };
  const { channels } = layout;
  const compared = new Set(members);
  const placeOf = new Map(images.map(({ row }, place) => [row, place]));
  const unit = toUnitLength(vectors);
  const axes = componentWeights(maps.pca, unit.data, channels);
  await using session = await openRowSession(queryGraph(unit.data, channels), { signal });
  for await (const { firstRow, rows, data } of dataset.blocks(key, { rowsPerBlock: BLOCK_ROWS })) {
    signal?.throwIfAborted();
    const wanted: number[] = [];
    const pooled = new Float32Array(rows * channels);
    for (let row = 0; row < rows; row++) {
      const place = live.has(firstRow + row) ? placeOf.get(firstRow + row) : undefined;
      if (place === undefined || compared.has(place)) continue;
      poolRow(data, (row * data.length) / rows, layout, pooled, wanted.length * channels);
      wanted.push(place);
    }
    onRows(firstRow + rows);
    if (wanted.length === 0) continue;
    const { dots, squares } = await session.run({
      rows: rowsTensor(pooled.slice(0, wanted.length * channels), channels),
    });
    wanted.forEach((place, i) => {
      const length = Math.sqrt(squares[i]!);
      if (!Number.isFinite(length)) return;
      rest.members.push(place);
      rest.lengths.push(length);
      const products = dots.subarray(i * members.length, (i + 1) * members.length);
      addRow(rest, products, length, axes, maps.umap, count);
    });
  }
  return rest;
}

/** For each component a weight per compared row, so that their products with a row give the row's place; and what to take off. */
function componentWeights(
  pca: Float64Array,
  unit: Float32Array,
  channels: number,
): readonly { readonly weights: Float64Array; readonly offset: number }[] {
  const rows = pca.length / 2;
  return [0, 1].map((axis) => {
    let squares = 0;
    for (let row = 0; row < rows; row++) squares += pca[2 * row + axis]! ** 2;
    // A component is the sum of the rows, each times its place, over the sum of the places' squares.
    const weights = Float64Array.from({ length: rows }, (_, row) =>
      squares === 0 ? 0 : pca[2 * row + axis]! / squares,
    );
    const direction = new Float64Array(channels);
    const mean = new Float64Array(channels);
    for (let row = 0; row < rows; row++)
      for (let c = 0; c < channels; c++) {
        direction[c]! += weights[row]! * unit[row * channels + c]!;
        mean[c]! += unit[row * channels + c]! / rows;
      }
    return { weights, offset: direction.reduce((sum, value, c) => sum + value * mean[c]!, 0) };
  });
}

/** Adds a row by its products with the compared rows, which have length 1. */
function addRow(
  rest: { readonly [Name in keyof Rest]: number[] },
  products: Float32Array,
  length: number,
  axes: ReturnType<typeof componentWeights>,
  umap: Float64Array | undefined,
  count: number,
): void {
  const scale = length === 0 ? 0 : 1 / length;
  for (const { weights, offset } of axes) {
    let sum = 0;
    for (let i = 0; i < products.length; i++) sum += weights[i]! * products[i]!;
    rest.pca.push(sum * scale - offset);
  }
  const nearest = new Largest(count);
  for (let i = 0; i < products.length; i++) nearest.add(i, products[i]!);
  const distances = nearest.values.map((product) => Math.min(2, Math.max(0, 1 - product * scale)));
  rest.neighbours.push(...nearest.indices);
  rest.distances.push(...distances);
  if (!umap) return;
  const shares = distances.map((distance) => 1 / (distance + 1e-6) ** 2);
  const total = shares.reduce((sum, share) => sum + share, 0);
  for (const axis of [0, 1])
    rest.umap.push(
      shares.reduce((sum, share, i) => sum + (share / total) * umap[2 * nearest.indices[i]! + axis]!, 0),
    );
}
