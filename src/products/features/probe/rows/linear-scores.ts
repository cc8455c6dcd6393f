/** Linear classifiers over the rows: the scores of each row by the classifier of its fold. */
import { mapInOrder } from '../../../../base/map-in-order.js';
import { openRowSession, rowsTensor, vectorTensor } from '../../../linear/row-session.js';
import { scoreGraph } from '../../../linear/row-graphs.js';
import type { LabelledBlock, RowBlocks } from './labelled-rows.js';

/** A score for each class: weight · x + bias. */
export interface ClassScorer {
  /** `[classes, elements]`, row-major. */
  readonly weight: Float64Array;
  /** `[classes]`. */
  readonly bias: Float64Array;
}

/** The scores of consecutive rows. */
export interface ScoredBlock {
  /** The position of the first row among the labelled rows. */
  readonly first: number;
  readonly rows: number;
  /** `rows × width` numbers. */
  readonly scores: Float64Array;
}

/** Size limit of a block's scores. */
const MOST_SCORES = 2 ** 20;

/** Scores all rows by several classifiers, in one pass. Returns blocks with the scores of all classifiers, one after the other, for each row. */
export async function* scoreRows(
  rows: RowBlocks,
  scorers: readonly ClassScorer[],
  signal: AbortSignal | undefined,
): AsyncGenerator<ScoredBlock> {
  const { elements } = rows;
  const width = scorers.reduce((sum, { bias }) => sum + bias.length, 0);
  const weight = new Float64Array(width * elements);
  const bias = new Float64Array(width);
  let at = 0;
  for (const scorer of scorers) {
    weight.set(scorer.weight, at * elements);
    bias.set(scorer.bias, at);
    at += scorer.bias.length;
  }
  const fixed = { weight: rowsTensor(weight, elements), bias: vectorTensor(bias) };
  await using session = await openRowSession(scoreGraph(elements), { isQuiet: true, signal });
  const run = async ({ first, rows: count, data }: LabelledBlock): Promise<ScoredBlock> => {
    const { scores } = await session.run({ ...fixed, rows: rowsTensor(data, elements) });
    return { first, rows: count, scores };
  };
  const mostRows = Math.max(16, Math.floor(MOST_SCORES / width));
  yield* mapInOrder(rows.pass(mostRows), 2, run);
}
