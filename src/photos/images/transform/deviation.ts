/** How much the pixels of `decode: 'fast'` differ from the exact ones. */
import { decodeBytes } from '../decode/decode.js';
import type { Reduction } from '../decode/reduction.js';
import { readImageFile, type ImageFile } from '../file/image-file.js';
import type { Transform } from './transform.js';

/** The difference between an image decoded both ways, over its transformed bytes (0 to 255, before normalisation). */
export interface Deviation {
  /** Mean of the absolute differences. */
  readonly mean: number;
  /** The largest absolute difference. */
  readonly max: number;
  /** By how much `decode: 'fast'` reduces each side of this image; at 1 nothing differs. */
  readonly reduction: Reduction;
}

/**
 * Decodes an image with `decode: 'exact'` and with `decode: 'fast'`, whatever the transform says, transforms both, and compares the
 * results. Throws as {@link loadImage} does.
 */
export async function measureDeviation(file: ImageFile, transform: Transform): Promise<Deviation> {
  const bytes = readImageFile(file);
  const fast = await decodeBytes(file, bytes, { ...transform.options, decode: 'fast' });
  if (fast.reduction === 1) return { mean: 0, max: 0, reduction: 1 };
  const exact = await decodeBytes(file, bytes, { ...transform.options, decode: 'exact' });
  return { ...compare(transform.apply(fast).data, transform.apply(exact).data), reduction: fast.reduction };
}

function compare(a: Uint8Array, b: Uint8Array): { readonly mean: number; readonly max: number } {
  let sum = 0;
  let max = 0;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i]! - b[i]!);
    sum += difference;
    if (difference > max) max = difference;
  }
  return { mean: sum / a.length, max };
}
