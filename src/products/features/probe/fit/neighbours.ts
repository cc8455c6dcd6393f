/** Nearest neighbours among the labelled rows: exact, in double precision. */
import { invalidOption } from '../../../../base/checks.js';
import { mapInOrder } from '../../../../base/map-in-order.js';
import { Largest } from '../../../../onnx/tensor/vectors/largest.js';
import { distanceGraph } from '../../../linear/row-graphs.js';
import { openRowSession, rowsTensor } from '../../../linear/row-session.js';
import type { LabelledBlock, RowBlocks } from '../rows/labelled-rows.js';
import type { ScoredBlock } from '../rows/linear-scores.js';

/** Rows that are compared with all rows at once. */
const QUERIES = 512;
/** All rows are compared with each other: the time grows with the square. */
const MOST_ROWS = 100_000;

/** Throws `OPTION_INVALID` for more rows than can be compared with each other. */
export function checkNeighbourRows(count: number): void {
  if (count <= MOST_ROWS) return;
  const expected = `another one than "knn" for more than ${MOST_ROWS} labelled rows`;
  throw invalidOption('kind', expected, `${count} rows`);
}

/** How neighbours are found. */
export interface NeighbourRequest {
  readonly rows: RowBlocks;
  readonly classes: number;
  /** The number of neighbours. */
  readonly neighbours: number;
  /** The fold of each row: rows of the same fold are no neighbours. */
  readonly foldOf: Uint8Array;
  readonly signal: AbortSignal | undefined;
}

/** The share of each class among a row's nearest neighbours (Euclidean) in other folds, for all rows. Equally near rows count in their order. */
export async function* voteByNeighbours(request: NeighbourRequest): AsyncGenerator<ScoredBlock> {
  const { rows, classes, neighbours, foldOf, signal } = request;
  const { elements } = rows;
  await using session = await openRowSession(distanceGraph(elements), { isQuiet: true, signal });
  for await (const queries of rows.pass(QUERIES)) {
    const nearest = Array.from({ length: queries.rows }, () => new Largest(neighbours));
    const fed = rowsTensor(Float64Array.from(queries.data), elements);
    const run = async (block: LabelledBlock): Promise<[LabelledBlock, Float64Array]> => {
      const { distances } = await session.run({ rows: rowsTensor(block.data, elements), queries: fed });
      return [block, distances];
    };
    for await (const [block, distances] of mapInOrder(rows.blocks(), 2, run)) {
      for (let q = 0, at = 0; q < queries.rows; q++)
        for (let i = 0; i < block.rows; i++, at++)
          if (foldOf[block.first + i] !== foldOf[queries.first + q])
            nearest[q]!.add(block.first + i, -distances[at]!);
    }
    const scores = new Float64Array(queries.rows * classes);
    for (const [q, { indices }] of nearest.entries())
      for (const row of indices) scores[q * classes + rows.labels[row]!]! += 1 / indices.length;
    yield { first: queries.first, rows: queries.rows, scores };
  }
}
