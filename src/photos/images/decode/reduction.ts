/** By how much a JPEG or WebP is reduced while it is decoded. Arithmetic only. */
import { resizedSize, type ResizeTarget, type Size } from '../pixels/geometry.js';

/** The divisor of each side; 1 is the whole image. */
export type Reduction = 1 | 2 | 4 | 8;

const REDUCTIONS = [8, 4, 2] as const;

/**
 * The largest reduction that leaves at least twice the target size along both sides. Pillow recommends this for `Image.draft`:
 * the resize still averages over at least two pixels.
 *
 * @param mayTurn - Whether the decoder may turn the image by 90°.
 */
export function chooseReduction(size: Size, resize: ResizeTarget, mayTurn: boolean): Reduction {
  if (resize === null) return 1;
  const target = resizedSize(size, resize);
  const longest = Math.max(target.height, target.width);
  // A target by its edges turns with the image. A size does not turn, so each side must leave enough for the longer one.
  const turns = typeof resize === 'number' || 'shortest' in resize || 'longest' in resize;
  const least = mayTurn && !turns ? { height: longest, width: longest } : target;
  // sourceSize tells by the sides whether the image was turned, so the reduced sides must be equal or differ by two pixels.
  const difference = mayTurn ? Math.abs(size.height - size.width) : 0;
  const found = REDUCTIONS.find(
    (reduction) =>
      Math.floor(size.height / reduction) >= 2 * least.height &&
      Math.floor(size.width / reduction) >= 2 * least.width &&
      (difference === 0 || difference >= 2 * reduction),
  );
  return found ?? 1;
}

/**
 * The size of the whole image, turned if the reduced image was turned.
 *
 * @param reduced - The size of the decoded image. The JPEG decoder drops a remainder at the right and the bottom, WebP's rounds.
 * @throws Error if the sizes do not belong to the same image.
 */
export function sourceSize({ height, width }: Size, reduced: Size, reduction: Reduction): Size {
  const fits = (side: number, whole: number): boolean => Math.abs(side - whole / reduction) < 1;
  if (fits(reduced.height, height) && fits(reduced.width, width)) return { height, width };
  if (fits(reduced.height, width) && fits(reduced.width, height)) return { height: width, width: height };
  throw new Error('its size changed while it was read');
}
