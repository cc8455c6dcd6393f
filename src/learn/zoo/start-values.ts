/** The parameters of a network that is not trained: reproducible numbers with which activations keep a sane size. */
import { mixBits } from '../../base/random.js';
import { bytesOf } from '../../onnx/tensor/bits.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import type { Parameter } from '../../onnx/networks/network.js';

/** Behind a ReLU of unit-normal numbers, what is left about the mean has this variance. */
const RECTIFIED = 0.5 - 0.5 / Math.PI;

/** FNV-1a, 32 bits (Fowler, Noll, Vo; public domain). */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash;
}

/**
 * The values that a parameter starts with. Element i is `fmix32(i · 0x9e3779b1 + fnv1a(seed:key)) / 2³²`, moved and scaled. It is uniform
 * about zero. Filters have a variance of `1 / (0.341 · fan-in)`, and the sum of each filter is taken out. Otherwise everything after a ReLU
 * would mostly respond to the common mean, and all photos would come out alike.
 *
 * @returns The bytes of the elements.
 */
export function startValues({ key, dims, start }: Parameter, seed: number): Uint8Array {
  if ('indices' in start) return bytesOf(BigInt64Array.from(start.indices(), BigInt));
  if ('values' in start) return bytesOf(Float32Array.from(start.values()));
  const values = new Float32Array(elementCount(dims));
  if ('fill' in start) return bytesOf(values.fill(start.fill));
  const fanIn = 'filters' in start ? elementCount(dims.slice(1)) : 1;
  const deviation = 'filters' in start ? 1 / Math.sqrt(RECTIFIED * fanIn) : start.spread;
  const width = deviation * Math.sqrt(12);
  const hash = hashOf(`${seed}:${key}`);
  for (let i = 0; i < values.length; i++)
    values[i] = (mixBits((Math.imul(i, 0x9e3779b1) + hash) | 0) / 2 ** 32 - 0.5) * width;
  for (let at = 0; fanIn > 1 && at < values.length; at += fanIn) centre(values.subarray(at, at + fanIn));
  return bytesOf(values);
}

function centre(filter: Float32Array): void {
  const mean = filter.reduce((sum, value) => sum + value, 0) / filter.length;
  for (let i = 0; i < filter.length; i++) filter[i]! -= mean;
}
