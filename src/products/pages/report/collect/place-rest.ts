/** The images beyond those that are compared with each other: each takes its place from the compared ones that it is nearest to. */
import { mapInOrder } from '../../../../base/map-in-order.js';
import { poolRow } from '../../../../onnx/tensor/vectors/row-layout.js';
import { toUnitLength } from '../../../../onnx/tensor/vectors/cosine.js';
import { openRowSession, rowsTensor } from '../../../linear/row-session.js';
import { nearestGraph, type NearestQueries } from '../../../linear/row-graphs.js';
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
  const axes = findAxes(maps.pca, unit.data, channels);
  // TopK takes no 0.
  const kept = Math.max(1, count);
  await using session = await openRowSession(nearestGraph(unit.data, channels, kept), { signal });
  const blocks = takeRest();
  const multiply = async (block: Block): Promise<readonly [Block, NearestQueries]> => [
    block,
    await session.run({ rows: rowsTensor(block.pooled, channels) }),
  ];
  for await (const [block, { most, places, squares }] of mapInOrder(blocks, 2, multiply)) {
    signal?.throwIfAborted();
    onRows(block.until);
    for (const [i, place] of block.places.entries()) {
      const length = Math.sqrt(squares[i]!);
      if (!Number.isFinite(length)) continue;
      rest.members.push(place);
      rest.lengths.push(length);
      const row = block.pooled.subarray(i * channels, (i + 1) * channels);
      const [from, to] = [i * kept, i * kept + count];
      const nearest = Array.from(places.subarray(from, to), Number);
      addRow(rest, row, { nearest, products: most.subarray(from, to) }, length, axes, maps.umap);
    }
  }
  return rest;

  async function* takeRest(): AsyncGenerator<Block> {
    for await (const { firstRow, rows, data } of dataset.blocks(key, { rowsPerBlock: BLOCK_ROWS })) {
      const places: number[] = [];
      const pooled = new Float32Array(rows * channels);
      for (let row = 0; row < rows; row++) {
        const place = live.has(firstRow + row) ? placeOf.get(firstRow + row) : undefined;
        if (place === undefined || compared.has(place)) continue;
        poolRow(data, (row * data.length) / rows, layout, pooled, places.length * channels);
        places.push(place);
      }
      if (places.length > 0)
        yield { places, pooled: pooled.slice(0, places.length * channels), until: firstRow + rows };
    }
  }
}

/** Images beyond the compared ones. */
interface Block {
  readonly places: readonly number[];
  /** `[places, channels]`. */
  readonly pooled: Float32Array;
  /** The rows of the dataset that have been read with it. */
  readonly until: number;
}

/** A component: the place of a row of length 1 is its product with the direction, less the offset. */
interface Axis {
  readonly direction: Float64Array;
  readonly offset: number;
}

/** The components of the compared rows. */
function findAxes(pca: Float64Array, unit: Float32Array, channels: number): readonly Axis[] {
  const rows = pca.length / 2;
  return [0, 1].map((axis) => {
    let squares = 0;
    for (let row = 0; row < rows; row++) squares += pca[2 * row + axis]! ** 2;
    const direction = new Float64Array(channels);
    const mean = new Float64Array(channels);
    for (let row = 0; row < rows; row++) {
      // A component is the sum of the rows, each times its place, over the sum of the places' squares.
      const weight = squares === 0 ? 0 : pca[2 * row + axis]! / squares;
      for (let c = 0; c < channels; c++) {
        direction[c]! += weight * unit[row * channels + c]!;
        mean[c]! += unit[row * channels + c]! / rows;
      }
    }
    return { direction, offset: direction.reduce((sum, value, c) => sum + value * mean[c]!, 0) };
  });
}

/** Adds a row by the compared rows that are nearest to it, and its products with them at length 1. */
function addRow(
  rest: { readonly [Name in keyof Rest]: number[] },
  row: Float32Array,
  { nearest, products }: { readonly nearest: readonly number[]; readonly products: Float32Array },
  length: number,
  axes: readonly Axis[],
  umap: Float64Array | undefined,
): void {
  const scale = length === 0 ? 0 : 1 / length;
  for (const { direction, offset } of axes) {
    let sum = 0;
    for (let c = 0; c < row.length; c++) sum += direction[c]! * row[c]!;
    rest.pca.push(sum * scale - offset);
  }
  const distances = Array.from(products, (product) => Math.min(2, Math.max(0, 1 - product * scale)));
  rest.neighbours.push(...nearest);
  rest.distances.push(...distances);
  if (!umap) return;
  const shares = distances.map((distance) => 1 / (distance + 1e-6) ** 2);
  const total = shares.reduce((sum, share) => sum + share, 0);
  for (const axis of [0, 1])
    rest.umap.push(
      shares.reduce((sum, share, i) => sum + (share / total) * umap[2 * nearest[i]! + axis]!, 0),
    );
}
