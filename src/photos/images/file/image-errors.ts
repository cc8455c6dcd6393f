/** The errors of single images. */
import { TapirError, reasonOf, type ErrorDetails, type ImageErrorCode } from '../../../base/errors.js';
import { checkMachine } from '../../../base/machine-failure.js';

/** The error of a single image. A run continues after it. */
export type ImageError = TapirError<ImageErrorCode>;

export function isImageError(error: unknown): error is ImageError {
  return error instanceof TapirError && error.code.startsWith('IMAGE_');
}

/** Those whose details are the image and the reason. */
type PlainCode = Exclude<ImageErrorCode, 'IMAGE_TRUNCATED' | 'IMAGE_TOO_LARGE'>;

/**
 * An image that cannot be read.
 *
 * @param more - `advice`: what to do, for the message.
 * @throws {@link TapirError} `TOO_MANY_OPEN_FILES`, `OUT_OF_MEMORY` if that is the cause: then the file is not to blame.
 */
export function unavailableImage<Code extends PlainCode>(
  code: Code,
  label: string,
  reason: string,
  { cause, advice }: { readonly cause?: unknown; readonly advice?: string } = {},
): TapirError<Code> {
  checkMachine(cause, { label });
  const message = `cannot read ${label}: ${reason}${advice === undefined ? '' : `; ${advice}`}`;
  // The compiler does not see through the type parameter.
  const details = { source: label, reason } as ErrorDetails[PlainCode] as ErrorDetails[Code];
  return new TapirError(code, message, { details, cause });
}

/** An image that was read, and does not fit what is asked of it. */
export function misfitImage(
  reason: string,
  label = 'an image',
  advice = 'leave it out, or choose another transform',
): TapirError<'IMAGE_MISFIT'> {
  return unavailableImage('IMAGE_MISFIT', label, reason, { advice });
}

/** A file that cannot be opened or read; the system's error decides the code. Throws `TOO_MANY_OPEN_FILES`, `OUT_OF_MEMORY`. */
export function fileError(
  label: string,
  cause: unknown,
): TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_DENIED' | 'IMAGE_UNREADABLE'> {
  const code = (cause as { readonly code?: unknown } | null)?.code;
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const advice = 'check its path';
    return unavailableImage('IMAGE_NOT_FOUND', label, `there is no such file (${code})`, { cause, advice });
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const advice = 'give this user read access to it and to the folders above it';
    return unavailableImage('IMAGE_DENIED', label, `permission denied (${code})`, { cause, advice });
  }
  return unavailableImage('IMAGE_UNREADABLE', label, reasonOf(cause), { cause });
}

export function missingRemoteImage(
  label: string,
  status: number,
): TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_DENIED'> {
  const advice = 'pass only a Response whose "ok" is true';
  const code = status === 401 || status === 403 ? 'IMAGE_DENIED' : 'IMAGE_NOT_FOUND';
  return unavailableImage(code, label, `the server answers ${status}`, { advice });
}

/** A file that the source listed and that no longer exists. */
export function vanishedImage(label: string, cause: unknown): TapirError<'IMAGE_VANISHED'> {
  const advice = 'run again to list the files that exist now';
  const reason = 'it was listed, but was gone when it was read';
  return unavailableImage('IMAGE_VANISHED', label, reason, { cause, advice });
}

const COPY_AGAIN = 'copy or download it again';

export function emptyImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'it is empty: the file has no bytes';
  return unavailableImage('IMAGE_EMPTY', label, reason, { advice: COPY_AGAIN });
}

/** A record with neither a path nor bytes in its image column. */
export function missingImage(label: string): TapirError<'IMAGE_EMPTY'> {
  return unavailableImage('IMAGE_EMPTY', label, 'its record holds null instead of an image');
}

export function truncatedImage(
  source: string,
  sizeBytes: number,
  missing: string,
  cause: unknown,
): TapirError<'IMAGE_TRUNCATED'> {
  const reason = `the file ends too early, after ${sizeBytes} bytes: ${missing}`;
  const message = `cannot read ${source}: ${reason}; ${COPY_AGAIN}`;
  return new TapirError('IMAGE_TRUNCATED', message, { details: { source, reason, sizeBytes }, cause });
}

/** A file that is not an image, a damaged one, or of a kind that is not supported. */
export function unreadableImage(
  source: string,
  reason: string,
  cause?: unknown,
): TapirError<'IMAGE_UNREADABLE'> {
  checkMachine(cause, { label: source });
  const message = `cannot read ${source} as an image: ${reason}`;
  return new TapirError('IMAGE_UNREADABLE', message, { details: { source, reason }, cause });
}

export function tooLargeImage(
  source: string,
  limitPixels: number,
  cause?: unknown,
  advice = 'raise limitPixels if you trust it',
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `it has more than ${limitPixels} pixels`;
  const message = `${source} is refused: ${reason}; ${advice}`;
  return new TapirError('IMAGE_TOO_LARGE', message, { details: { source, reason, limitPixels }, cause });
}

export function tooLongFile(
  source: string,
  limitBytes: number,
  sizeBytes?: number,
): TapirError<'IMAGE_TOO_LARGE'> {
  const more = `more than ${limitBytes}`;
  const reason = sizeBytes === undefined ? `it has ${more} bytes` : `it has ${sizeBytes} bytes, ${more}`;
  const message = `${source} is refused: ${reason}; store a smaller copy of it`;
  return new TapirError('IMAGE_TOO_LARGE', message, { details: { source, reason, limitBytes } });
}
