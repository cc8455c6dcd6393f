/** The errors of single images. */
import { TapirError, reasonOf } from '../errors.js';

/** What a decoder of this package throws where the file ends before its image does; the message says which part is missing. */
export class CutOff extends Error {}

/** Beside the reason, what a code has in its details. */
type Cause = { readonly cause?: unknown };

function causeOf(cause: unknown): Cause {
  return cause === undefined ? {} : { cause };
}

/** A file that could not be opened or read, by what the system says. */
export function fileError(
  label: string,
  error: unknown,
): TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_DENIED' | 'IMAGE_UNREADABLE'> {
  const code = (error as { code?: unknown } | null)?.code;
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const reason = `there is no such file (${code})`;
    return new TapirError('IMAGE_NOT_FOUND', `cannot read ${label}: ${reason}; check its path`, {
      details: { source: label, reason },
      cause: error,
    });
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const reason = `permission denied (${code})`;
    return new TapirError(
      'IMAGE_DENIED',
      `cannot read ${label}: ${reason}; let this user read it and enter the folders above it`,
      { details: { source: label, reason }, cause: error },
    );
  }
  const reason = reasonOf(error);
  return new TapirError('IMAGE_UNREADABLE', `cannot read ${label}: ${reason}`, {
    details: { source: label, reason },
    cause: error,
  });
}

/** The source listed the file, and now it is not there. */
export function vanishedImage(label: string, cause?: unknown): TapirError<'IMAGE_VANISHED'> {
  const reason = 'it was listed, and was gone when its turn came';
  return new TapirError(
    'IMAGE_VANISHED',
    `cannot read ${label}: ${reason}; run again to list what is there now`,
    {
      details: { source: label, reason },
      ...causeOf(cause),
    },
  );
}

/** The file has no bytes. */
export function emptyImage(label: string): TapirError<'IMAGE_EMPTY'> {
  const reason = 'it is empty: the file has no bytes';
  return new TapirError('IMAGE_EMPTY', `cannot read ${label}: ${reason}; copy or download it again`, {
    details: { source: label, reason },
  });
}

/** The file ends before its image does. */
export function truncatedImage(
  label: string,
  sizeBytes: number,
  missing: string,
  cause?: unknown,
): TapirError<'IMAGE_TRUNCATED'> {
  const reason = `the file ends after ${sizeBytes} bytes, too early: ${missing}`;
  return new TapirError('IMAGE_TRUNCATED', `cannot read ${label}: ${reason}; copy or download it again`, {
    details: { source: label, reason, sizeBytes },
    ...causeOf(cause),
  });
}

/** The file is no image, or none that is read. */
export function unreadableImage(
  label: string,
  reason: string,
  cause?: unknown,
): TapirError<'IMAGE_UNREADABLE'> {
  return new TapirError('IMAGE_UNREADABLE', `${label} is no image that can be read: ${reason}`, {
    details: { source: label, reason },
    ...causeOf(cause),
  });
}

/** The image has more pixels than are allowed. */
export function tooLargeImage(
  label: string,
  limitPixels: number,
  cause?: unknown,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `it has more than ${limitPixels} pixels`;
  return new TapirError(
    'IMAGE_TOO_LARGE',
    `${label} is refused: ${reason}; raise limitPixels if it is to be trusted`,
    {
      details: { source: label, reason, limitPixels },
      ...causeOf(cause),
    },
  );
}

/** The file has more bytes than are read. */
export function tooLongFile(
  label: string,
  sizeBytes: number,
  limitBytes: number,
): TapirError<'IMAGE_TOO_LARGE'> {
  const reason = `its file has ${sizeBytes} bytes, more than ${limitBytes}`;
  return new TapirError('IMAGE_TOO_LARGE', `${label} is refused: ${reason}; store a smaller copy of it`, {
    details: { source: label, reason, limitBytes },
  });
}
