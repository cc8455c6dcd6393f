/** The errors of single images. */
import { TapirError, reasonOf, type ErrorDetails, type ImageErrorCode } from '../../base/errors.js';

/** What a decoder of this package throws where the file ends before its image does; the message says which part is missing. */
export class CutOff extends Error {}

function imageError<Code extends ImageErrorCode>(
  code: Code,
  message: string,
  details: ErrorDetails[Code],
  cause?: unknown,
): TapirError<Code> {
  return new TapirError(code, message, { details, ...(cause === undefined ? {} : { cause }) });
}

/** A file that could not be opened or read, by what the system says. */
export function fileError(
  label: string,
  error: unknown,
): TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_DENIED' | 'IMAGE_UNREADABLE'> {
  const code = (error as { readonly code?: unknown } | null)?.code;
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const reason = `there is no such file (${code})`;
    const message = `cannot read ${label}: ${reason}; check its path`;
    return imageError('IMAGE_NOT_FOUND', message, { source: label, reason }, error);
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const reason = `permission denied (${code})`;
    const message = `cannot read ${label}: ${reason}; let this user read it and enter the folders above it`;
    return imageError('IMAGE_DENIED', message, { source: label, reason }, error);
  }
  const reason = reasonOf(error);
  return imageError('IMAGE_UNREADABLE', `cannot read ${label}: ${reason}`, { source: label, reason }, error);
}

/** The source listed the file, and now it is not there. */
export function vanishedImage(label: string, cause: unknown): TapirError<'IMAGE_VANISHED'> {
  const reason = 'it was listed, and was gone when its turn came';
  const message = `cannot read ${label}: ${reason}; run again to list what is there now`;
  return imageError('IMAGE_VANISHED', message, { source: label, reason }, cause);
}

/** The file has no bytes. */
export function emptyImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'it is empty: the file has no bytes';
  const message = `cannot read ${label}: ${reason}; copy or download it again`;
  return imageError('IMAGE_EMPTY', message, { source: label, reason });
}

/** A record has neither a path nor bytes where its image should be. */
export function missingImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'its record holds null instead of an image';
  return imageError('IMAGE_EMPTY', `cannot read ${label}: ${reason}`, { source: label, reason });
}

/** The file ends before its image does. */
export function truncatedImage(
  label: string,
  sizeBytes: number,
  missing: string,
  cause: unknown,
): TapirError<'IMAGE_TRUNCATED'> {
  const reason = `the file ends after ${sizeBytes} bytes, too early: ${missing}`;
  const message = `cannot read ${label}: ${reason}; copy or download it again`;
  return imageError('IMAGE_TRUNCATED', message, { source: label, reason, sizeBytes }, cause);
}

/** The file is no image, or none that is read. */
export function unreadableImage(
  label: string,
  reason: string,
  cause?: unknown,
): TapirError<'IMAGE_UNREADABLE'> {
  const message = `${label} is no image that can be read: ${reason}`;
  return imageError('IMAGE_UNREADABLE', message, { source: label, reason }, cause);
}

/** The image has more pixels than are allowed. */
export function tooLargeImage(
  label: string,
  limitPixels: number,
  cause?: unknown,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `it has more than ${limitPixels} pixels`;
  const message = `${label} is refused: ${reason}; raise limitPixels if it is to be trusted`;
  return imageError('IMAGE_TOO_LARGE', message, { source: label, reason, limitPixels }, cause);
}

/** The file has more bytes than are read. */
export function tooLongFile(
  label: string,
  sizeBytes: number,
  limitBytes: number,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `its file has ${sizeBytes} bytes, more than ${limitBytes}`;
  const message = `${label} is refused: ${reason}; store a smaller copy of it`;
  return imageError('IMAGE_TOO_LARGE', message, { source: label, reason, limitBytes });
}
