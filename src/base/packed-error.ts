/** Errors that travel to another thread or process. */
import { TapirError, type ErrorCode, type ErrorDetails } from './errors.js';

/** An error as a plain object. A structured clone of an Error keeps only its message and stack. */
export interface PackedError {
  readonly code?: ErrorCode;
  readonly message: string;
  readonly stack?: string;
  readonly details?: unknown;
  readonly cause?: PackedError;
  readonly errors?: readonly PackedError[];
}

/** More causes than a person reads; a chain could be endless, or lead back to itself. */
const MOST_CAUSES = 16;

/** Packs an error, to which those `above` lead, for another thread or process; {@link unpackError} rebuilds it. */
export function packError(error: unknown, above: ReadonlySet<Error> = new Set()): PackedError {
  if (!(error instanceof Error)) return { message: String(error) };
  const here = new Set([...above, error]);
  const isPacked = (cause: unknown): boolean =>
    cause !== undefined && here.size <= MOST_CAUSES && !here.has(cause as Error);
  return {
    message: error.message,
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error instanceof TapirError ? { code: error.code, details: error.details } : {}),
    ...(isPacked(error.cause) ? { cause: packError(error.cause, here) } : {}),
    ...(error instanceof TapirError && error.errors.length > 0
      ? { errors: error.errors.filter(isPacked).map((one) => packError(one, here)) }
      : {}),
  };
}

/** Rebuilds a packed error with its class, code, details and causes. */
export function unpackError(packed: PackedError): Error {
  const cause = packed.cause && unpackError(packed.cause);
  const error =
    packed.code === undefined
      ? new Error(packed.message, cause && { cause })
      : new TapirError(packed.code, packed.message, {
          // packError() took the details from an error of this code.
          details: packed.details as ErrorDetails[ErrorCode],
          errors: (packed.errors ?? []).map(unpackError),
          cause,
        });
  if (packed.stack !== undefined) error.stack = packed.stack;
  return error;
}
