/** Nearest neighbours among the labelled rows: exact, in double precision. */
import { runAhead } from '../../../runtime/run-ahead.js';
import { invalidOption } from '../../../base/checks.js';
import { ELEMENT_TYPE } from '../../../onnx/wire/schema.js';
import { writeModel } from '../../../onnx/wire/write-model.js';
import type { LabelledBlock, LabelledRows } from '../rows/labelled-rows.js';
import type { ScoredBlock } from '../rows/linear-scores.js';
import { doubles, openRowSession, rowsTensor, type RowSession } from '../rows/row-session.js';

/** Rows that are compared with all rows at once. */
const QUERIES = 512;
/** All rows are compared with each other: the time grows with the square. */
const MOST_ROWS = 100_000;

/** Throws `OPTION_INVALID` for more rows than can be compared with each other. */
export function checkNeighbourRows(count: number): void {
  if (count > MOST_ROWS)
    throw invalidOption(
      'kind',
      `another one than "knn" for more than ${MOST_ROWS} labelled rows`,
      `${count} rows`,
    );
}

/** How neighbours are found. */
export interface NeighbourRequest {
  readonly rows: LabelledRows;
  readonly classes: number;
  /** The number of neighbours. */
  readonly neighbours: number;
  /** The fold of each row: rows of the same fold are no neighbours. */
  readonly foldOf: Uint8Array;
  readonly signal: AbortSignal | undefined;
}

/**
 * The share of each class among a row's nearest neighbours (Euclidean) in other folds, for all rows. Equally near rows count in
 * their order.
 */
export async function* voteByNeighbours(request: NeighbourRequest): AsyncGenerator<ScoredBlock> {
  const { rows, classes, neighbours, foldOf, signal } = request;
  await using session = await openRowSession(encodeDistances(rows.elements), signal);
  for await (const queries of rows.blocks(QUERIES)) {
    const nearest = Array.from({ length: queries.rows }, () => new Nearest(neighbours));
    const run = (block: LabelledBlock): ReturnType<RowSession['run']> =>
      session.run(
        {
          rows: rowsTensor(block),
          queries: doubles([queries.rows, rows.elements], Float64Array.from(queries.data)),
        },
        ['distances'],
      );
    for await (const [block, [distances]] of runAhead(rows.blocks(), run)) {
      const values = distances!.data as Float64Array;
      for (let q = 0, at = 0; q < queries.rows; q++)
        for (let i = 0; i < block.rows; i++, at++)
          if (foldOf[block.first + i] !== foldOf[queries.first + q])
            nearest[q]!.add(block.first + i, values[at]!);
    }
    const scores = new Float64Array(queries.rows * classes);
    for (const [q, { found }] of nearest.entries())
      for (const row of found) scores[q * classes + rows.labels[row]!]! += 1 / found.length;
    yield { first: queries.first, rows: queries.rows, scores };
  }
}

/** The nearest rows of a query. Rows come in order, so a later row that is equally near is not nearer. */
class Nearest {
  readonly found: number[] = [];
  readonly #distances: number[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  add(row: number, distance: number): void {
    const distances = this.#distances;
    if (distances.length === this.#most && distance >= distances.at(-1)!) return;
    let at = distances.length;
    while (at > 0 && distance < distances[at - 1]!) at--;
    distances.splice(at, 0, distance);
    this.found.splice(at, 0, row);
    if (distances.length <= this.#most) return;
    distances.pop();
    this.found.pop();
  }
}

/** queries `[Q, D]`, rows `[R, D]` → ‖row‖² − 2·query·row `[Q, R]`: the squared distance less a number that the rows share. */
function encodeDistances(elements: number): Uint8Array<ArrayBuffer> {
  const { float32, float64 } = ELEMENT_TYPE;
  const node = (opType: string, inputs: string[], output: string, attributes = {}) => ({
    name: output,
    opType,
    inputs,
    outputs: [output],
    attributes,
  });
  return writeModel({
    irVersion: 8,
    opset: 13,
    name: 'distances',
    nodes: [
      node('Cast', ['rows'], 'x', { to: float64 }),
      node('ReduceSumSquare', ['x'], 'squares', { axes: [1], keepdims: 0 }),
      node('Gemm', ['queries', 'x', 'squares'], 'distances', { transB: 1, alpha: { float: -2 } }),
    ],
    tensors: [],
    inputs: [
      { name: 'rows', elemType: float32, dims: ['R', elements] },
      { name: 'queries', elemType: float64, dims: ['Q', elements] },
    ],
    outputs: [{ name: 'distances', elemType: float64, dims: ['Q', 'R'] }],
  });
}
