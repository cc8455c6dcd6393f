/** When a row may leave: conditions on its logits, and thresholds that let a given share of rows leave. Pure. */
import { invalidOption } from '../../base/checks.js';

/** A measure of how sure an exit is. */
export type Criterion = 'confidence' | 'margin' | 'entropy';

/** The logits of one row at an exit. */
export interface ExitRow {
  /** Its position in the batch. */
  readonly index: number;
  readonly exit: number;
  /** A view: copy what you keep. */
  readonly logits: Float32Array;
}

/**
 * When a row leaves: the largest softmax probability, or its lead over the second largest, is at least a threshold; the entropy of
 * the softmax, in nats, is at most one; or a function says so.
 */
export type Until =
  | { readonly confidence: number }
  | { readonly margin: number }
  | { readonly entropy: number }
  | ((row: ExitRow) => boolean);

/** Whether a row leaves. */
export type Leaves = (row: ExitRow) => boolean;

export const CRITERIA: readonly Criterion[] = ['confidence', 'margin', 'entropy'];

/** Reads a condition. Throws `OPTION_INVALID`. */
function readUntil(option: string, given: unknown): Leaves {
  if (typeof given === 'function') return given as Leaves;
  const entries = given === null || typeof given !== 'object' ? [] : Object.entries(given as object);
  const [name, threshold] = (entries[0] ?? []) as [Criterion?, unknown?];
  const isCriterion = entries.length === 1 && CRITERIA.includes(name!);
  if (isCriterion && typeof threshold === 'number' && !Number.isNaN(threshold))
    return ({ logits }) => isSure(name!, scoreOf(name!, logits), threshold);
  const expected = '{ confidence }, { margin } or { entropy } with a number, or a function of the row';
  throw invalidOption(option, expected, given);
}

function isSure(criterion: Criterion, score: number, threshold: number): boolean {
  return criterion === 'entropy' ? score <= threshold : score >= threshold;
}

/** How sure an exit is of a row, in float64. */
export function scoreOf(criterion: Criterion, logits: Float32Array): number {
  const largest = logits.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const powers = Float64Array.from(logits, (logit) => Math.exp(logit - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  if (criterion === 'confidence') return 1 / sum;
  if (criterion === 'margin') return (1 - (powers.toSorted().at(-2) ?? 0)) / sum;
  return powers.reduce(
    (entropy, power) => (power > 0 ? entropy - (power / sum) * Math.log(power / sum) : entropy),
    0,
  );
}

/**
 * Thresholds with which given shares of rows leave, each exit in turn choosing among the rows that are left.
 *
 * @param scores - By exit but the last: the score of every row.
 * @param shares - By exit but the last: the share of all rows that is to leave there.
 * @returns A threshold per exit: that of the last row that still leaves. Rows with equal scores leave together.
 */
export function fitThresholds(
  criterion: Criterion,
  scores: readonly (readonly number[])[],
  shares: readonly number[],
): number[] {
  let left = scores[0]!.map((_, row) => row);
  const rows = left.length;
  return scores.map((ofExit, exit) => {
    const surest = left.toSorted((a, b) =>
      criterion === 'entropy' ? ofExit[a]! - ofExit[b]! : ofExit[b]! - ofExit[a]!,
    );
    const count = Math.min(surest.length, Math.round(shares[exit]! * rows));
    if (count === 0) return criterion === 'entropy' ? -Infinity : Infinity;
    const threshold = ofExit[surest[count - 1]!]!;
    left = left.filter((row) => !isSure(criterion, ofExit[row]!, threshold));
    return threshold;
  });
}

/** Reads the conditions of all exits. Throws `OPTION_INVALID`. */
export function readUntils(
  option: string,
  given: readonly Until[],
  count: number,
  field: string = '',
): Leaves[] {
  if (!Array.isArray(given) || given.length !== count)
    throw invalidOption(option, `a list of ${count} conditions, one per exit`, given);
  return given.map((until, i) => readUntil(`${option}[${i}]${field}`, until));
}
