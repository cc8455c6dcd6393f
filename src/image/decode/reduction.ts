/** How far a JPEG or WebP may be reduced while it is decoded. Numbers only. */
import { resizedSize, type Size } from '../pixels/geometry.js';

/** One in so many pixels along each side; 1 is the whole image. */
export type Reduction = 1 | 2 | 4 | 8;

const REDUCTIONS = [8, 4, 2] as const;

/**
 * The largest reduction that leaves at least twice the size that a resize asks for, along both sides: Pillow's advice for
 * `Image.draft`, so that the resize still averages over at least two pixels.
 *
 * @param size - The whole image.
 * @param resize - As in `TransformOptions`.
 * @param mayTurn - The image may turn out to lie on its side.
 */
export function chooseReduction(size: Size, resize: number | Size | null, mayTurn: boolean): Reduction {
  if (resize === null) return 1;
  const target = resizedSize(size, resize);
  const longest = Math.max(target.height, target.width);
  // With a number the target turns with the image; with a size it stays, so both sides are held against the longer one.
  const least = mayTurn && typeof resize !== 'number' ? { height: longest, width: longest } : target;
  // Which side is up is seen from the sides' lengths.
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
 * The whole image's size, on its side where the reduced image is.
 *
 * @param size - As the file's header gives it.
 * @param reduced - What was decoded. JPEG drops what is left over at the right and the bottom, WebP rounds.
 * @throws Error if the two are not of one image.
 */
export function sourceSize({ height, width }: Size, reduced: Size, reduction: Reduction): Size {
  const fits = (side: number, whole: number): boolean => Math.abs(side - whole / reduction) < 1;
  if (fits(reduced.height, height) && fits(reduced.width, width)) return { height, width };
  if (fits(reduced.height, width) && fits(reduced.width, height)) return { height: width, width: height };
  throw new Error('its size changed while it was read');
}
