/**
 * Fewer rows than elements: the rows as coordinates in the space that they span. A classifier with an L2 penalty is a sum of its rows
 * (Kimeldorf and Wahba's representer theorem), so nothing is lost, and the problem has as many unknowns as rows.
 */
import { gramGraph } from '../../../linear/row-graphs.js';
import { openRowSession, rowsTensor } from '../../../linear/row-session.js';
import { factorize, solveUpper } from './cholesky.js';
import { addTo } from '../rows/class-moments.js';
import { MOST_KEPT_BYTES, RowBlocks, type LabelledBlock } from '../rows/labelled-rows.js';
import type { ClassScorer } from '../rows/linear-scores.js';

/** Rows in the space that they span. */
export interface RowSpan {
  /** The same rows with as many elements as there are rows. Their products are those of the rows over the penalty, taken from the mean. */
  readonly rows: RowBlocks;
  /** Turns a classifier of these into the classifier of the rows themselves that gives the same scores. */
  readonly expand: (scorer: ClassScorer) => ClassScorer;
}

/** More rows are not worth it: their products take longer than a good scaling saves. */
const MOST_ROWS = 1024;
/** Numbers in a part of the columns, which are widened together. */
const PART = 2 ** 20;

/** Finds the span of the rows; undefined if they have no more elements than there are rows, or are too many. */
export async function findSpan(
  rows: RowBlocks,
  penalty: Float64Array,
  signal: AbortSignal | undefined,
): Promise<RowSpan | undefined> {
  const { count, elements, mean } = rows;
  if (count >= elements || count > MOST_ROWS || 4 * count * elements > MOST_KEPT_BYTES) return undefined;
  const data = await rows.copy();
  const scale = penalty.map((pull) => 1 / Math.sqrt(pull));
  const centred = (row: number, element: number): number =>
    (data[row * elements + element]! - mean[element]!) * scale[element]!;
  const factor = await multiplyRows(count, elements, centred, signal);
  factorize(factor, count);
  return {
    rows: new FactorRows(rows.labels, factor),
    expand: ({ weight, bias }) => {
      const classes = bias.length;
      const wide = new Float64Array(classes * elements);
      const shifted = bias.slice();
      for (let k = 0; k < classes; k++) {
        const shares = weight.slice(k * count, (k + 1) * count);
        solveUpper(factor, shares);
        const own = wide.subarray(k * elements, (k + 1) * elements);
        for (let row = 0; row < count; row++) {
          const share = shares[row]!;
          if (share !== 0) for (let j = 0; j < elements; j++) own[j]! += share * centred(row, j);
        }
        for (let j = 0; j < elements; j++) {
          own[j]! *= scale[j]!;
          shifted[k]! -= own[j]! * mean[j]!;
        }
      }
      return { weight: wide, bias: shifted };
    },
  };
}

/** The products of all pairs of rows, `[count, count]`. */
async function multiplyRows(
  count: number,
  elements: number,
  centred: (row: number, element: number) => number,
  signal: AbortSignal | undefined,
): Promise<Float64Array> {
  const products = new Float64Array(count * count);
  await using session = await openRowSession(gramGraph(), { isQuiet: true, signal });
  const width = Math.max(1, Math.floor(PART / count));
  for (let first = 0; first < elements; first += width) {
    const end = Math.min(elements, first + width);
    const part = new Float64Array(count * (end - first));
    for (let row = 0, at = 0; row < count; row++)
      for (let element = first; element < end; element++) part[at++] = centred(row, element);
    // oxlint-disable-next-line no-await-in-loop -- a session runs one after the other
    addTo(products, (await session.run({ rows: rowsTensor(part, end - first) })).products);
  }
  return products;
}

/** The rows of a factor L. A direction without spread, whose pivot is infinite, is 0 in all of them. */
class FactorRows extends RowBlocks {
  readonly elements: number;
  readonly labels: Int32Array;
  readonly mean: Float64Array;
  readonly deviation: Float64Array;
  readonly #data: Float32Array;

  constructor(labels: Int32Array, factor: Float64Array) {
    super();
    const count = labels.length;
    this.labels = labels;
    this.elements = count;
    this.mean = new Float64Array(count);
    this.#data = new Float32Array(count * count);
    const squares = new Float64Array(count);
    for (let row = 0; row < count; row++)
      for (let j = 0; j <= row; j++) {
        const value = factor[row * count + j]!;
        if (value === Infinity) continue;
        this.#data[row * count + j] = value;
        this.mean[j]! += value / count;
        squares[j]! += value ** 2 / count;
      }
    this.deviation = squares.map((square, j) => Math.sqrt(Math.max(0, square - this.mean[j]! ** 2)));
  }

  async *blocks(mostRows: number = Infinity): AsyncGenerator<LabelledBlock> {
    const { count, elements } = this;
    for (let first = 0; first < count; first += mostRows) {
      const end = Math.min(count, first + mostRows);
      yield { first, rows: end - first, data: this.#data.subarray(first * elements, end * elements) };
    }
  }
}
