/** Pixels that are decoded already, in the forms in which other libraries give them. */
import { types } from 'node:util';
import { invalidOption, show } from '../../../base/checks.js';
import type { Pixels } from './pam.js';

/** The bytes of decoded pixels: 8 bits each, row by row from the top, without padding between rows. */
export type PixelBytes = Uint8Array | Uint8ClampedArray;

/**
 * Pixels that are decoded already: `{ data, width, height, channels? }`, the `ImageData` of a canvas, or what sharp's
 * `raw().toBuffer({ resolveWithObject: true })` gives.
 *
 * 1 channel is grey, 3 are RGB, 4 RGBA, of which the option `alpha` drops the fourth or lays it on white. Where `channels` is left out, the
 * length of `data` says it. Each photo is copied once, when it is read.
 */
export type DecodedPixels =
  | {
      readonly data: PixelBytes;
      readonly width: number;
      readonly height: number;
      readonly channels?: number | undefined;
    }
  | {
      readonly data: PixelBytes;
      readonly info: { readonly width: number; readonly height: number; readonly channels: number };
    };

/**
 * Pixels with their number of channels; undefined for a value that has no pixels.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for pixels of another size than their data, or of more than 8 bits.
 */
export function readPixels(source: unknown, option: string): Pixels | undefined {
  if (typeof source !== 'object' || source === null || !('data' in source) || 'toTensor' in source)
    return undefined;
  const { data } = source;
  const facts = 'info' in source ? source.info : source;
  const { width, height, channels } = (facts ?? {}) as Record<string, unknown>;
  if (width === undefined || height === undefined) return undefined;
  const isBytes = types.isUint8Array(data) || types.isUint8ClampedArray(data);
  const pixels = Number(width) * Number(height);
  const counted = channels ?? (isBytes ? data.length / pixels : undefined);
  const found = ([1, 3, 4] as const).find((known) => known === counted);
  const isWhole = [width, height].every((side) => Number.isInteger(side) && Number(side) > 0);
  if (isBytes && isWhole && found !== undefined && data.length === pixels * found)
    return { data, width: Number(width), height: Number(height), channels: found };
  const held = isBytes ? `${data.length} bytes` : 'no Uint8Array';
  const got = `${show(width)} × ${show(height)}, ${channels === undefined ? '' : `${show(channels)} channels, `}${held}`;
  const expected =
    'pixels { data, width, height } of 1, 3 or 4 channels of 8 bits, width × height × channels bytes';
  throw invalidOption(option, expected, got.slice(0, 76));
}
