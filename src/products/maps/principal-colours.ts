/** Feature maps → colours: places with like features have like colours. */
import { findComponents } from '../../onnx/tensor/vectors/find-components.js';
import type { Maps } from './maps.js';

/** The share of places that is left out of the range of colours at each end where nobody says another. */
export const COLOUR_CLIP = 0.01;

const COMPONENTS = 3;

/**
 * The first three principal components of all places as red, green and blue, each scaled to its range. The same values give the same
 * colours.
 *
 * @param clip - The share of places that is left out of the range, at each end.
 * @returns For each of the maps, bytes `[rows, height, width, 3]`; undefined with fewer than three channels or places.
 */
export async function principalColours(
  maps: readonly Maps[],
  clip: number,
): Promise<readonly Uint8Array[] | undefined> {
  const [channels, count] = [maps[0]!.channels, maps.reduce((sum, { data }) => sum + data.length, 0)];
  const places = count / channels;
  if (channels < COMPONENTS || places < COMPONENTS) return undefined;
  const features = new Float32Array(count);
  let at = 0;
  for (const each of maps) {
    features.set(channelsLast(each), at);
    at += each.data.length;
  }
  const matrix = { rows: places, columns: channels, data: features };
  const found = await findComponents(matrix, COMPONENTS);
  const colours = new Uint8Array(COMPONENTS * places);
  found.places.forEach((values, k) => {
    const bytes = toBytes(values, ...rangeOf(values, clip));
    bytes.forEach((byte, i) => (colours[COMPONENTS * i + k] = byte));
  });
  let end = 0;
  return maps.map(({ data }) => colours.subarray(end, (end += (COMPONENTS * data.length) / channels)));
}

/** The features of each place, one place after the other. Values that are not finite become 0. */
function channelsLast({ channels, size: [height, width], data }: Maps): Float32Array {
  const places = height * width;
  return data.map((_, i) => {
    const [place, channel] = [Math.floor(i / channels), i % channels];
    const value = data[(Math.floor(place / places) * channels + channel) * places + (place % places)]!;
    return Number.isFinite(value) ? value : 0;
  });
}

function rangeOf(values: readonly number[], clip: number): [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const skip = Math.floor(clip * sorted.length);
  return [sorted[skip]!, sorted[sorted.length - 1 - skip]!];
}

/** Scales values to 0 … 255. Values that are not finite become 0; so does a map of equal values. */
export function toBytes(values: ArrayLike<number>, least: number, largest: number): Uint8Array {
  const scale = largest > least ? 255 / (largest - least) : 0;
  return Uint8Array.from(values, (value) => {
    const byte = Number.isFinite(value) ? Math.round((value - least) * scale) : 0;
    return Math.max(0, Math.min(255, byte));
  });
}
