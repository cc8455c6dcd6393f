/** Checks of numbers in the options of training. */
import { invalidOption } from '../../base/checks.js';

/** Returns a finite number in a range, ends included, or throws `OPTION_INVALID`. */
export function checkNumber(option: string, value: unknown, min: number, max: number = Infinity): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= min && value <= max) return value;
  const range = max < Infinity ? ` from ${min} to ${max}` : min > -Infinity ? ` from ${min}` : '';
  throw invalidOption(option, `a finite number${range}`, value);
}
