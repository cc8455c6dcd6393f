/** Compares all rows of a dataset with each other, in bounded memory. */
import { mapInOrder } from '../../../base/map-in-order.js';
import type { RowGroups } from '../../../onnx/tensor/vectors/row-groups.js';
import { rowsTensor, type RowSession } from '../../linear/row-session.js';
import type { PairProducts } from '../../linear/row-graphs.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { slackOf } from '../search/metric.js';
import { cosineOf, readTiles, unitRows, type SkippedRows, type Tile, type TileRequest } from './tiles.js';

/** Bytes of the tiles that stay in memory while the rest of the dataset passes. */
const PANEL_BYTES = 32 * 2 ** 20;

/** A comparison of all rows. */
export interface Comparison {
  readonly session: RowSession<PairProducts>;
  readonly tiles: TileRequest;
  readonly cosine: number;
  readonly groups: RowGroups;
  /** The input of each row, whose parts are no copies of each other; undefined where each row is an input. */
  readonly inputOf: Int32Array | undefined;
  readonly skipped: SkippedRows;
  /** Called with the tiles that have been compared with all others. */
  readonly onPanel: (rows: number) => void;
  readonly signal: AbortSignal | undefined;
}

/** Joins the rows whose cosine is at least the threshold. Returns the number of rows compared. */
export async function compareRows(dataset: Dataset, comparison: Comparison): Promise<number> {
  const { session, tiles, signal } = comparison;
  const slack = slackOf(tiles.elements, session.isOnCpu);
  let compared = 0;
  const multiply = async ([left, right]: readonly [Tile, Tile]): Promise<[Tile, Tile, PairProducts]> => {
    signal?.throwIfAborted();
    const feedOf = (tile: Tile): Tensor => rowsTensor(unitRows(tile), tiles.elements);
    return [left, right, await session.run({ left: feedOf(left), right: feedOf(right) }, true)];
  };
  for await (const [left, right, products] of mapInOrder(pairTiles(dataset, comparison), 2, multiply)) {
    joinRows(comparison, left, right, products, slack);
    if (left === right) compared += left.rows.length;
  }
  return compared;
}

/** All pairs of tiles, each with itself too. A panel of tiles stays in memory while the tiles after it are read. */
async function* pairTiles(
  dataset: Dataset,
  { tiles, skipped, onPanel }: Comparison,
): AsyncGenerator<readonly [Tile, Tile]> {
  const tileBytes = 4 * tiles.elements * tiles.tileRows;
  const panelTiles = Math.max(1, Math.floor(PANEL_BYTES / tileBytes));
  let rest = true;
  let done = 0;
  for (let first = 0; rest; first += panelTiles) {
    const panel: Tile[] = [];
    rest = false;
    let position = 0;
    for await (const tile of readTiles(dataset, tiles, first === 0 ? skipped : undefined)) {
      if (position++ < first) continue;
      if (panel.length < panelTiles) panel.push(tile);
      else rest = true;
      for (const left of panel) yield [left, tile];
    }
    for (const { rows } of panel) done += rows.length;
    onPanel(done);
  }
}

/**
 * Joins the near rows of two tiles. A product within the rounding error of the threshold is computed again in double precision, so
 * the groups do not depend on how the rows were cut into tiles.
 */
function joinRows(
  { cosine, groups, inputOf }: Comparison,
  left: Tile,
  right: Tile,
  { dots, most }: PairProducts,
  slack: number,
): void {
  const count = right.rows.length;
  for (let i = 0; i < left.rows.length; i++) {
    // A product of finite rows of length 1 is finite.
    if (most[i]! < cosine - slack) continue;
    for (let j = left === right ? i + 1 : 0; j < count; j++) {
      const dot = dots[i * count + j]!;
      if (dot < cosine - slack) continue;
      const a = left.rows[i]!;
      const b = right.rows[j]!;
      if (groups.find(a) === groups.find(b) || (inputOf && inputOf[a] === inputOf[b])) continue;
      if (dot > cosine + slack || cosineOf(left, i, right, j) >= cosine) groups.join(a, b);
    }
  }
}
