/** How many inputs may fail before a run ends. */
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';

/** A number of inputs, or a share of the inputs such as `'1%'` or `'0.5%'`. */
export type MaxFailures = number | `${number}%`;

/** Inputs that must be done before a share is judged. */
const INPUTS_TO_JUDGE = 100;

/** A parsed limit. */
export interface FailureLimit {
  readonly text: string;
  readonly count: number;
  /** From 0 to 1. */
  readonly rate: number;
}

/** Returns the option, or throws `OPTION_INVALID`. */
export function checkMaxFailures(option: string, value: unknown): MaxFailures {
  const given = value as MaxFailures;
  if (readFailureLimit(given) !== undefined) return given;
  const expected = 'a number of inputs from 0, or a share of the inputs from "0%" to "100%"';
  throw invalidOption(option, expected, value);
}

/** Parses the option; undefined for anything else. */
export function readFailureLimit(given: MaxFailures | undefined): FailureLimit | undefined {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(String(given))?.[1];
  if (percent !== undefined && Number(percent) <= 100)
    return { text: String(given), count: Infinity, rate: Number(percent) / 100 };
  if (typeof given === 'number' && Number.isInteger(given) && given >= 0)
    return { text: String(given), count: given, rate: 1 };
  return undefined;
}

/**
 * Ends a run in which too many inputs have failed.
 *
 * @param isEnd - All inputs are done, so a share is judged even if there are few.
 * @throws {@link TapirError} `TOO_MANY_FAILURES`.
 */
export function checkFailures(
  limit: FailureLimit | undefined,
  { done, failed }: { readonly done: number; readonly failed: number },
  isEnd: boolean,
): void {
  if (!limit) return;
  const isJudged = isEnd || done >= INPUTS_TO_JUDGE;
  if (failed <= limit.count && !(isJudged && failed > limit.rate * done)) return;
  const kept = isEnd
    ? 'the dataset is written nevertheless'
    : 'what was done is kept; run the same command again to resume';
  throw new TapirError(
    'TOO_MANY_FAILURES',
    `${failed} of ${done} inputs failed, more than the ${limit.text} allowed (maxFailures); ${kept}`,
    { details: { failed, done, limit: limit.text } },
  );
}
