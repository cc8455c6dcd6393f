/** The errors of single images. */
import { TapirError, reasonOf, type ErrorDetails, type ImageErrorCode } from '../../base/errors.js';
import { checkOpenFiles } from '../../base/open-files.js';

/** The error of a single image. A run continues after it. */
export type ImageError = TapirError<ImageErrorCode>;

/** Whether an error is that of a single image. */
export function isImageError(error: unknown): error is ImageError {
  return error instanceof TapirError && error.code.startsWith('IMAGE_');
}

function imageError<Code extends ImageErrorCode>(
  code: Code,
  message: string,
  details: ErrorDetails[Code],
  cause?: unknown,
): TapirError<Code> {
  return new TapirError(code, message, { details, ...(cause === undefined ? {} : { cause }) });
}

/**
 * A file that cannot be opened or read; the system's error decides the code.
 *
 * @throws {@link TapirError} `TOO_MANY_OPEN_FILES`: then the file is not to blame.
 */
export function fileError(
  label: string,
  error: unknown,
): TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_DENIED' | 'IMAGE_UNREADABLE'> {
  checkOpenFiles(error);
  const code = (error as { readonly code?: unknown } | null)?.code;
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const reason = `there is no such file (${code})`;
    const message = `cannot read ${label}: ${reason}; check its path`;
    return imageError('IMAGE_NOT_FOUND', message, { source: label, reason }, error);
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const reason = `permission denied (${code})`;
    const message = `cannot read ${label}: ${reason}; give this user read access to it and to the folders above it`;
    return imageError('IMAGE_DENIED', message, { source: label, reason }, error);
  }
  const reason = reasonOf(error);
  return imageError('IMAGE_UNREADABLE', `cannot read ${label}: ${reason}`, { source: label, reason }, error);
}

/** A server that answers with an error status. */
export function missingRemoteImage(label: string, status: number): TapirError<'IMAGE_NOT_FOUND'> {
  const reason = `the server answers ${status}`;
  const message = `cannot read ${label}: ${reason}; pass only a Response whose "ok" is true`;
  return imageError('IMAGE_NOT_FOUND', message, { source: label, reason });
}

/** A file that the source listed and that no longer exists. */
export function vanishedImage(label: string, cause: unknown): TapirError<'IMAGE_VANISHED'> {
  const reason = 'it was listed, but was gone when it was read';
  const message = `cannot read ${label}: ${reason}; run again to list the files that exist now`;
  return imageError('IMAGE_VANISHED', message, { source: label, reason }, cause);
}

/** A file without bytes. */
export function emptyImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'it is empty: the file has no bytes';
  const message = `cannot read ${label}: ${reason}; copy or download it again`;
  return imageError('IMAGE_EMPTY', message, { source: label, reason });
}

/** A record with neither a path nor bytes in its image column. */
export function missingImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'its record holds null instead of an image';
  return imageError('IMAGE_EMPTY', `cannot read ${label}: ${reason}`, { source: label, reason });
}

/** A file that ends before its image does. */
export function truncatedImage(
  label: string,
  sizeBytes: number,
  missing: string,
  cause: unknown,
): TapirError<'IMAGE_TRUNCATED'> {
  const reason = `the file ends too early, after ${sizeBytes} bytes: ${missing}`;
  const message = `cannot read ${label}: ${reason}; copy or download it again`;
  return imageError('IMAGE_TRUNCATED', message, { source: label, reason, sizeBytes }, cause);
}

/** A file that is not an image, a damaged one, or of a kind that is not supported. */
export function unreadableImage(
  label: string,
  reason: string,
  cause?: unknown,
): TapirError<'IMAGE_UNREADABLE'> {
  const message = `cannot read ${label} as an image: ${reason}`;
  return imageError('IMAGE_UNREADABLE', message, { source: label, reason }, cause);
}

/** An image with more pixels than the limit. */
export function tooLargeImage(
  label: string,
  limitPixels: number,
  cause?: unknown,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `it has more than ${limitPixels} pixels`;
  const message = `${label} is refused: ${reason}; raise limitPixels if you trust it`;
  return imageError('IMAGE_TOO_LARGE', message, { source: label, reason, limitPixels }, cause);
}

/** A file with more bytes than the limit. */
export function tooLongFile(
  label: string,
  limitBytes: number,
  sizeBytes?: number,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason =
    sizeBytes === undefined
      ? `it has more than ${limitBytes} bytes`
      : `it has ${sizeBytes} bytes, more than ${limitBytes}`;
  const message = `${label} is refused: ${reason}; store a smaller copy of it`;
  return imageError('IMAGE_TOO_LARGE', message, { source: label, reason, limitBytes });
}
