/** The errors of sources. */
import { reasonOf, TapirError } from '../../base/errors.js';

/** Where in a source it is broken. */
interface Place {
  /** From 1. */
  readonly line?: number;
  readonly cause?: unknown;
}

/** A source that cannot be read, or not to its end. */
export function invalidSource(
  source: string,
  reason: string,
  { line, ...more }: Place = {},
): TapirError<'SOURCE_INVALID'> {
  const where = line === undefined ? reason : `line ${line}: ${reason}`;
  return new TapirError('SOURCE_INVALID', `"${source}" cannot be embedded: ${where}`, {
    details: { source, reason: where, ...(line === undefined ? {} : { line }) },
    ...more,
  });
}

/** A table without the column that holds the paths. */
export function missingColumn(
  source: string,
  column: string,
  names: readonly string[],
): TapirError<'SOURCE_INVALID'> {
  const shown = names.slice(0, 10).join(', ') + (names.length > 10 ? ', …' : '');
  return invalidSource(source, `it has no column "${column}" but ${shown} (--column names another)`);
}

/** What a step on a source throws, as an error of the source; errors that are typed already stay. */
export function asInvalidSource(source: string, error: unknown): Error {
  return error instanceof TapirError ? error : invalidSource(source, reasonOf(error), { cause: error });
}

/** An image that its source cannot hand over. */
export function unavailableImage<Code extends 'IMAGE_NOT_FOUND' | 'IMAGE_UNREADABLE'>(
  code: Code,
  path: string,
  reason: string,
  cause?: unknown,
): TapirError<Code> {
  const details = { source: path, reason };
  // Both codes have these details; the compiler cannot see it through the parameter.
  return new TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_UNREADABLE'>(code, `cannot read ${path}: ${reason}`, {
    details,
    ...(cause === undefined ? {} : { cause }),
  }) as TapirError<Code>;
}
