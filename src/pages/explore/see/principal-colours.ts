/** Places → colours: the first three principal components of the channels as red, green and blue. */
import { findComponents } from '../../base/principal-components.js';
import { toBytes } from './draw-maps.js';
import type { Places } from './places.js';

const COMPONENTS = 3;
/** The share of places that may lie outside of the colours' range, at each end. */
const CLIPPED = 0.01;

/** The colours of places as bytes `[height, width, 3]`; undefined with fewer than three channels. The same values give the same colours. */
export async function principalColours({
  channels,
  height,
  width,
  data,
}: Places): Promise<Uint8Array | undefined> {
  const size = height * width;
  if (channels < COMPONENTS || size < COMPONENTS) return undefined;
  const rows = Float32Array.from({ length: channels * size }, (_, i) => {
    const value = data[(i % channels) * size + Math.floor(i / channels)]!;
    return Number.isFinite(value) ? value : 0;
  });
  const breathe = (): Promise<void> => Promise.resolve();
  const { places } = await findComponents({ rows: size, columns: channels, data: rows }, COMPONENTS, breathe);
  const colours = new Uint8Array(COMPONENTS * size);
  places.forEach((values, k) => {
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
