/** Linear classifiers over the rows: the scores of each row by the classifier of its fold. */
import { runAhead } from '../../../runtime/run-ahead.js';
import { ELEMENT_TYPE } from '../../../onnx/wire/schema.js';
import { writeModel } from '../../../onnx/wire/write-model.js';
import type { LabelledBlock, LabelledRows } from './labelled-rows.js';
import { doubles, openRowSession, rowsTensor, type RowSession } from './row-session.js';

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

/**
 * Scores all rows by several classifiers, in one pass.
 *
 * @returns Blocks with the scores of all classifiers, one after the other, for each row.
 */
export async function* scoreRows(
  rows: LabelledRows,
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
  const fixed = { weight: doubles([width, elements], weight), bias: doubles([width], bias) };
  await using session = await openRowSession(encodeScores(elements), signal);
  const run = (block: LabelledBlock): ReturnType<RowSession['run']> =>
    session.run({ ...fixed, rows: rowsTensor(block) }, ['scores']);
  const mostRows = Math.max(16, Math.floor(MOST_SCORES / width));
  for await (const [{ first, rows: count }, [scores]] of runAhead(rows.blocks(mostRows), run))
    yield { first, rows: count, scores: scores!.data as Float64Array };
}

/** rows `[R, D]` float32 → scores `[R, K]`. */
function encodeScores(elements: number): Uint8Array<ArrayBuffer> {
  const { float32, float64 } = ELEMENT_TYPE;
  return writeModel({
    irVersion: 8,
    opset: 13,
    name: 'scores',
    nodes: [
      { name: 'x', opType: 'Cast', inputs: ['rows'], outputs: ['x'], attributes: { to: float64 } },
      {
        name: 'scores',
        opType: 'Gemm',
        inputs: ['x', 'weight', 'bias'],
        outputs: ['scores'],
        attributes: { transB: 1 },
      },
    ],
    tensors: [],
    inputs: [
      { name: 'rows', elemType: float32, dims: ['R', elements] },
      { name: 'weight', elemType: float64, dims: ['K', elements] },
      { name: 'bias', elemType: float64, dims: ['K'] },
    ],
    outputs: [{ name: 'scores', elemType: float64, dims: ['R', 'K'] }],
  });
}

/** Turns scores of one row into probabilities, in place. */
export function softmax(scores: Float64Array): void {
  let most = -Infinity;
  for (const score of scores) most = Math.max(most, score);
  let sum = 0;
  for (let k = 0; k < scores.length; k++) sum += scores[k] = Math.exp(scores[k]! - most);
  for (let k = 0; k < scores.length; k++) scores[k]! /= sum;
}
