/** The errors of sources: readers throw a reason, and one place says of which source. */
import { inspect } from 'node:util';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { checkMachine } from '../../../base/machine-failure.js';
import { hideSecrets } from '../../../base/url-names.js';

interface Place {
  /** From 1. */
  readonly line?: number | undefined;
  /** What helps, for the message. */
  readonly hint?: string;
  readonly cause?: unknown;
}

/** Makes the error for a source that cannot be read, or not to its end. Throws `TOO_MANY_OPEN_FILES` if that is the cause. */
export function invalidSource(
  given: string,
  fault: string,
  { line, hint, cause }: Place = {},
): TapirError<'SOURCE_INVALID'> {
  checkMachine(cause);
  const [source, reason] = [hideSecrets(given), hideSecrets(fault)];
  const where = line === undefined ? reason : `line ${line}: ${reason}`;
  const help = hint === undefined ? '' : ` (${hint})`;
  return new TapirError('SOURCE_INVALID', `"${source}" cannot be embedded: ${where}${help}`, {
    details: { source, reason: where, ...(line === undefined ? {} : { line }) },
    // Errors of parsers quote the line.
    ...(cause !== undefined && hideSecrets(inspect(cause)) === inspect(cause) ? { cause } : {}),
  });
}

/** What is wrong with a source, thrown by what reads its content. Where the source is opened, {@link asInvalidSource} says which one it is. */
export class SourceFault extends Error {
  readonly place: Place;

  constructor(reason: string, place: Place = {}) {
    super(reason, place.cause === undefined ? {} : { cause: place.cause });
    this.place = place;
  }
}

/** Makes the fault of a table without a column; `advice` says what to do. */
export function missingColumn(
  column: string,
  names: readonly string[],
  advice: string = 'choose one with --column',
): SourceFault {
  const shown = names.slice(0, 10).join(', ') + (names.length > 10 ? ', …' : '');
  return new SourceFault(`it has no column "${column}"; the columns are ${shown}: ${advice}`);
}

/** Turns a fault into an error of its source. What else a producer throws stays as it is. */
export function nameFault(source: string, error: unknown): unknown {
  return error instanceof SourceFault ? invalidSource(source, error.message, error.place) : error;
}

/** Turns what a step on a source has thrown into an error of the source. Typed errors stay. */
export function asInvalidSource(source: string, error: unknown): Error {
  const named = nameFault(source, error);
  return named instanceof TapirError ? named : invalidSource(source, reasonOf(error), { cause: error });
}

/** Items of a stream, whose faults name it. */
export async function* ofSource<Item>(source: string, items: AsyncIterable<Item>): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    throw nameFault(source, error);
  }
}
