/** How far a named fast mode is from the exact pixels, measured. */
import { decodeBytes } from './decode/decode.js';
import { readImageFile, type ImageSource } from './pixels/image-file.js';
import { createTransform, Transform } from './transform.js';
import type { TransformPreset } from './presets.js';
import type { Reduction } from './decode/reduction.js';

/** The difference between an image read both ways, over its transformed 8-bit values (0 to 255, before normalisation). */
export interface Deviation {
  /** Mean of the absolute differences. */
  readonly mean: number;
  /** The largest absolute difference. */
  readonly max: number;
  /** How far `decode: 'fast'` reduces this image; with 1 nothing differs. */
  readonly reduction: Reduction;
}

/**
 * Reads an image with `decode: 'exact'` and with `decode: 'fast'` and compares what the transform makes of the two.
 *
 * @remarks
 * Costs both decodes, except where nothing is reduced: then the second one is left out.
 *
 * @param source - A path, a `file:` URL, or the bytes of an image file.
 * @param transform - From {@link createTransform}, or a preset's name; its own `decode` does not matter.
 * @returns Mean and largest absolute difference of the `height × width × 3` bytes, and the reduction.
 * @throws {@link TapirError} As {@link loadImage}.
 *
 * @example
 * ```ts
 * import { measureDeviation } from 'onnx-tapir';
 *
 * console.log(await measureDeviation('photo.jpg', 'ImageNet1K_V1')); // { mean: 0.31, max: 9, reduction: 4 }
 * ```
 */
export async function measureDeviation(
  source: ImageSource,
  transform: Transform | TransformPreset = 'ImageNet1K_V1',
): Promise<Deviation> {
  const chosen = transform instanceof Transform ? transform : createTransform(transform);
  const bytes = readImageFile(source);
  const fast = await decodeBytes(source, bytes, { ...chosen.options, decode: 'fast' });
  if (fast.reduction === 1) return { mean: 0, max: 0, reduction: 1 };
  const exact = await decodeBytes(source, bytes, { ...chosen.options, decode: 'exact' });
  return { ...compare(chosen.apply(fast).data, chosen.apply(exact).data), reduction: fast.reduction };
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
