/** What was found out about a property of a model. */
import { isTapirError, type ErrorCode } from '../../base/errors.js';
import { formatValue } from '../../base/html/numbers.js';

/** Whether something holds: bit for bit, within rounding, or not; it can also be refused with an error, or not be provable here. */
export type Verdict = 'yes' | 'close' | 'no' | 'refused' | 'unproven';

export interface Finding {
  readonly verdict: Verdict;
  /** The reason, in words. */
  readonly says: string;
  /** The code of the error, if it is refused. */
  readonly code?: ErrorCode;
}

export function yes(says: string): Finding {
  return { verdict: 'yes', says };
}

export function unproven(says: string): Finding {
  return { verdict: 'unproven', says };
}

/** A refusal is a finding. */
export async function judge(check: () => Promise<Finding>): Promise<Finding> {
  try {
    return await check();
  } catch (error) {
    if (!isTapirError(error)) throw error;
    return { verdict: 'refused', says: error.message, code: error.code };
  }
}

export function compared(
  what: string,
  isEqual: boolean,
  off: number,
  tolerance: number,
  unit = ' of the largest value',
): Finding {
  const verdict = isEqual ? 'yes' : off <= tolerance ? 'close' : 'no';
  const how = isEqual
    ? 'the same bits'
    : Number.isFinite(off)
      ? `off by ${formatValue(off)}${unit}`
      : 'another shape, or NaN';
  return { verdict, says: `${what}: ${how}` };
}
