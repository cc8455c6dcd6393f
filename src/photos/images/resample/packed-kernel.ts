/** A kernel in the format of `wasm/resample.ts`. */
import { oncePer } from '../../../base/once-per.js';
import type { Kernel } from './kernel.js';

/** Every position has the same number of weights; unused ones are 0. */
export interface PackedKernel {
  /** Pairs of weights per position. */
  readonly pairs: number;
  /** 8 bytes per pair: the low halves of two weights, then their high halves; weight = high · 2^16 + low, both signed. */
  readonly weights: Int32Array;
}

/** The packed form of a kernel, created once and kept as long as the kernel. */
export const packedKernelOf: (kernel: Kernel) => PackedKernel = oncePer(packKernel);

function packKernel({ counts, weights, stride }: Kernel): PackedKernel {
  const pairs = Math.ceil(counts.reduce((most, count) => Math.max(most, count), 1) / 2);
  const halves = new Int16Array(counts.length * pairs * 4);
  for (let position = 0; position < counts.length; position++) {
    for (let tap = 0; tap < counts[position]!; tap++) {
      const weight = weights[position * stride + tap]!;
      const at = (position * pairs + (tap >> 1)) * 4 + (tap & 1);
      const low = (weight << 16) >> 16;
      halves[at] = low;
      halves[at + 2] = (weight - low) >> 16;
    }
  }
  return { pairs, weights: new Int32Array(halves.buffer) };
}
