/** The errors of single images. */
import { TapirError } from '../errors.js';

/** The file is no image, or none that is read. */
export function unreadableImage(
  label: string,
  reason: string,
  cause?: unknown,
): TapirError<'IMAGE_UNREADABLE'> {
  return new TapirError('IMAGE_UNREADABLE', `${label} is no image that can be read: ${reason}`, {
    details: { source: label, reason },
    ...(cause === undefined ? {} : { cause }),
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
      ...(cause === undefined ? {} : { cause }),
    },
  );
}
