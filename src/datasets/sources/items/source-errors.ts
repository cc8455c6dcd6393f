/** The errors of sources. */
import { reasonOf, TapirError } from '../../../base/errors.js';
import { checkOpenFiles } from '../../../base/open-files.js';

interface Place {
  /** From 1. */
  readonly line?: number | undefined;
  /** What helps, for the message. */
  readonly hint?: string;
  readonly cause?: unknown;
}

/** Makes the error for a source that cannot be read, or not to its end. Throws `TOO_MANY_OPEN_FILES` if that is the cause. */
export function invalidSource(
  source: string,
  reason: string,
  { line, hint, ...more }: Place = {},
): TapirError<'SOURCE_INVALID'> {
  checkOpenFiles(more.cause);
  const where = line === undefined ? reason : `line ${line}: ${reason}`;
  const help = hint === undefined ? '' : ` (${hint})`;
  return new TapirError('SOURCE_INVALID', `"${source}" cannot be embedded: ${where}${help}`, {
    details: { source, reason: where, ...(line === undefined ? {} : { line }) },
    ...more,
  });
}

/** Makes the error for a table without the column of paths. */
export function missingColumn(
  source: string,
  column: string,
  names: readonly string[],
): TapirError<'SOURCE_INVALID'> {
  const shown = names.slice(0, 10).join(', ') + (names.length > 10 ? ', …' : '');
  return invalidSource(source, `it has no column "${column}" but ${shown}`, {
    hint: '--column names another',
  });
}

/** Turns what a step on a source has thrown into an error of the source. Typed errors stay. */
export function asInvalidSource(source: string, error: unknown): Error {
  return error instanceof TapirError ? error : invalidSource(source, reasonOf(error), { cause: error });
}
