/** Feature maps → colours: places with like features have like colours. */
import { createBreathe } from '../../tensor/vectors/breathe.js';
import type { Maps } from './maps.js';

const COMPONENTS = 3;
/** The share of places that may lie outside of the colours' range, at each end. */
const CLIPPED = 0.01;

/**
 * The first three principal components of all places as red, green and blue, each scaled to its range without the outermost
 * hundredths. The same values give the same colours.
 *
 * @returns Bytes `[rows, height, width, 3]`; undefined with fewer than three channels or places.
 */
export async function principalColours({
  rows,
  channels,
  size: [height, width],
  data,
}: Maps): Promise<Uint8Array | undefined> {
  const places = height * width;
  const count = rows * places;
  if (channels < COMPONENTS || count < COMPONENTS) return undefined;
  const features = new Float32Array(count * channels);
  for (let i = 0; i < features.length; i++) {
    const [place, channel] = [Math.floor(i / channels), i % channels];
    const value = data[(Math.floor(place / places) * channels + channel) * places + (place % places)]!;
    features[i] = Number.isFinite(value) ? value : 0;
  }
  // Loaded where it is needed: attribution does without.
  const { findComponents } = await import('../../tensor/vectors/principal-components.js');
  const matrix = { rows: count, columns: channels, data: features };
  const found = await findComponents(matrix, COMPONENTS, createBreathe(undefined));
  const colours = new Uint8Array(COMPONENTS * count);
  found.places.forEach((values, k) => {
    const bytes = toBytes(Float32Array.from(values), ...clippedRange(values));
    bytes.forEach((byte, i) => (colours[COMPONENTS * i + k] = byte));
  });
  return colours;
}

function clippedRange(values: readonly number[]): [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const skip = Math.floor(CLIPPED * sorted.length);
  return [sorted[skip]!, sorted[sorted.length - 1 - skip]!];
}

/** Scales values to 0 … 255. Values that are not finite become 0; so does a map of equal values. */
export function toBytes(values: Float32Array, least: number, largest: number): Uint8Array {
  const scale = largest > least ? 255 / (largest - least) : 0;
  return Uint8Array.from(values, (value) => {
    const byte = Number.isFinite(value) ? Math.round((value - least) * scale) : 0;
    return Math.max(0, Math.min(255, byte));
  });
}
