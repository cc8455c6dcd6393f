/** Places → colours: the first three principal components of the channels as red, green and blue. */
import { toBytes } from './draw-maps.js';
import type { Places } from './places.js';

const COMPONENTS = 3;
const STEPS = 60;
/** The share of places that may lie outside of the colours' range, at each end. */
const CLIPPED = 0.01;

/** The colours of places as bytes `[height, width, 3]`; undefined with fewer than three channels. The same values give the same colours. */
export function principalColours({ channels, height, width, data }: Places): Uint8Array | undefined {
  if (channels < COMPONENTS || height * width < COMPONENTS) return undefined;
  const centred = centre(data, channels);
  const size = height * width;
  const colours = new Uint8Array(3 * size);
  const found: Float64Array[] = [];
  for (let k = 0; k < COMPONENTS; k++) {
    const direction = principalDirection(centred, channels, found);
    found.push(direction);
    const values = project(centred, direction);
    const bytes = toBytes(Float32Array.from(values), ...clippedRange(values));
    bytes.forEach((byte, i) => (colours[3 * i + k] = byte));
  }
  return colours;
}

/** The values less the mean of their channel; those that are not finite become 0. */
function centre(data: Float32Array, channels: number): Float64Array {
  const size = data.length / channels;
  const centred = Float64Array.from(data, (value) => (Number.isFinite(value) ? value : 0));
  for (let c = 0; c < channels; c++) {
    const channel = centred.subarray(c * size, (c + 1) * size);
    const mean = channel.reduce((sum, value) => sum + value, 0) / size;
    for (let i = 0; i < size; i++) channel[i]! -= mean;
  }
  return centred;
}

/** The direction in which the places vary most, orthogonal to those found before: power iteration. Its largest element is positive. */
function principalDirection(
  centred: Float64Array,
  channels: number,
  found: readonly Float64Array[],
): Float64Array {
  let direction = normalise(
    orthogonal(
      Float64Array.from({ length: channels }, (_, c) => Math.sin(1 + c * (1 + found.length))),
      found,
    ),
  );
  for (let step = 0; step < STEPS; step++) {
    const next = normalise(orthogonal(correlate(centred, project(centred, direction), channels), found));
    if (next.every((value) => value === 0)) break;
    direction = next;
  }
  const largest = direction.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
  return largest < 0 ? direction.map((value) => -value) : direction;
}

function project(centred: Float64Array, direction: Float64Array): Float64Array {
  const size = centred.length / direction.length;
  const values = new Float64Array(size);
  for (let c = 0; c < direction.length; c++)
    for (let i = 0; i < size; i++) values[i]! += direction[c]! * centred[c * size + i]!;
  return values;
}

function correlate(centred: Float64Array, values: Float64Array, channels: number): Float64Array {
  const size = values.length;
  return Float64Array.from({ length: channels }, (_, c) => {
    let sum = 0;
    for (let i = 0; i < size; i++) sum += values[i]! * centred[c * size + i]!;
    return sum;
  });
}

function orthogonal(vector: Float64Array, found: readonly Float64Array[]): Float64Array {
  for (const other of found) {
    const share = vector.reduce((sum, value, i) => sum + value * other[i]!, 0);
    for (let i = 0; i < vector.length; i++) vector[i]! -= share * other[i]!;
  }
  return vector;
}

function normalise(vector: Float64Array): Float64Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value ** 2, 0));
  return length > 1e-12 ? vector.map((value) => value / length) : vector.fill(0);
}

function clippedRange(values: Float64Array): [number, number] {
  const sorted = values.toSorted();
  const skip = Math.floor(CLIPPED * sorted.length);
  return [sorted[skip]!, sorted[sorted.length - 1 - skip]!];
}
