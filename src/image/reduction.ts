/** How far a JPEG may be reduced while it is decoded. Numbers only. */
import { resizedSize, type Size } from './geometry.js';

/** One in so many pixels along each side; 1 is the whole image. */
export type Reduction = 1 | 2 | 4 | 8;

const REDUCTIONS = [8, 4, 2] as const;

/** The size that libvips decodes a JPEG to: what is left over at the right and the bottom is dropped. */
export function reducedSize({ height, width }: Size, reduction: Reduction): Size {
  return { height: Math.floor(height / reduction), width: Math.floor(width / reduction) };
}

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
  const found = REDUCTIONS.find((reduction) => {
    const reduced = reducedSize(size, reduction);
    // A square that was none cannot be told from one on its side.
    const isLost = mayTurn && reduced.height === reduced.width && size.height !== size.width;
    return !isLost && reduced.height >= 2 * least.height && reduced.width >= 2 * least.width;
  });
  return found ?? 1;
}
