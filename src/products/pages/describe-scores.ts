/** What a score stands for. */
import { shown } from '../../base/printable.js';
import type { Attribution } from '../explain/attribution.js';

/** Which scores an attribution explains, as a sentence for people. */
export function describeScores({ output, skipped }: Pick<Attribution, 'output' | 'skipped'>): string {
  return skipped === null
    ? `The score is a value of “${shown(output)}”.`
    : `The score is a value of “${shown(output)}”, before the ${skipped} at the end.`;
}
