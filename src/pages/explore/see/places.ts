/** A tensor of one image as channels × places: maps, tokens of a ViT, or a vector. */
import { fromFloat16Bits } from '../../../tensor/float16.js';
import type { Layout } from '../../../graph/layout.js';
import type { Tensor } from '../../../tensor/tensor.js';

/** The values of one image, channel by channel. */
export interface Places {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  /** `[channels, height, width]`. */
  readonly data: Float32Array;
  /** Tokens that stand before the patches and are left out. */
  readonly prefix: number;
}

/** The values of a tensor as float32. undefined for text. */
export function valuesOfTensor(tensor: Tensor): Float32Array | undefined {
  if (tensor.dtype === 'string') return undefined;
  if (tensor.dtype === 'float32') return tensor.data;
  if (tensor.dtype === 'float16') return Float32Array.from(tensor.data, fromFloat16Bits);
  return Float32Array.from(tensor.data as Iterable<number | bigint>, Number);
}

/**
 * Reads the first image of a tensor as maps.
 *
 * @param layout - The order of its axes, where the graph proves it; else four axes are NCHW, and three are tokens where their number
 * is that of a square, with or without tokens before it.
 * @returns undefined for a tensor without places.
 */
export function readPlaces(
  values: Float32Array,
  dims: readonly number[],
  layout: Layout | null,
): Places | undefined {
  if (dims.length === 4) {
    const [, a, b, c] = dims as [number, number, number, number];
    if (a * b * c === 0) return undefined;
    const first = values.subarray(0, a * b * c);
    return layout === 'NHWC'
      ? { channels: c, height: a, width: b, data: channelsFirst(first, c), prefix: 0 }
      : { channels: a, height: b, width: c, data: first, prefix: 0 };
  }
  if (dims.length !== 3 || layout === 'NCL') return undefined;
  const [, tokens, channels] = dims as [number, number, number];
  const grid = gridOf(tokens);
  if (!grid || channels === 0) return undefined;
  const patches = values.subarray(grid.prefix * channels, tokens * channels);
  const { side, prefix } = grid;
  return { channels, height: side, width: side, data: channelsFirst(patches, channels), prefix };
}

/** Class, distillation and register tokens. */
const PREFIX_TOKENS = [0, 1, 2, 4, 5, 8, 9];

/** The square of patches in a number of tokens, after those before it. */
export function gridOf(tokens: number): { readonly side: number; readonly prefix: number } | undefined {
  for (const prefix of PREFIX_TOKENS) {
    const side = Math.sqrt(tokens - prefix);
    if (Number.isInteger(side) && side > 1) return { side, prefix };
  }
  return undefined;
}

/** `[places, channels]` → `[channels, places]`. */
function channelsFirst(values: Float32Array, channels: number): Float32Array {
  const places = values.length / channels;
  const data = new Float32Array(values.length);
  for (let i = 0; i < places; i++)
    for (let c = 0; c < channels; c++) data[c * places + i] = values[i * channels + c]!;
  return data;
}
