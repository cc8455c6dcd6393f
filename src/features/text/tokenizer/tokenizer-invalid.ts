/** The error of a tokenizer's files. */
import { TapirError } from '../../../base/errors.js';

/** Makes the error for a file of a tokenizer that is missing or damaged, or that says what cannot be followed. */
export function tokenizerInvalid(
  path: string,
  reason: string,
  cause?: unknown,
): TapirError<'TOKENIZER_INVALID'> {
  return new TapirError('TOKENIZER_INVALID', `"${path}": ${reason}`, { details: { path, reason }, cause });
}
