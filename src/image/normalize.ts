/** Pixels → float32 planes with torchvision's numbers: `(x/255 − mean)/std`, each step rounded to float32. */
import type { RgbImage } from './pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from './simd/simd-module.js';

const CHANNELS = 3;
/** Pixels per call of WebAssembly, a multiple of 4: 24 KiB of pixels and 96 KiB of floats stay in the CPU's cache. */
const STRIP_PIXELS = 8192;

/** The last vector is read beyond the last pixel. */
const SPARE_BYTES = 16;

type Channels = readonly [number, number, number];

/** A normalisation with its means and standard deviations: on WebAssembly SIMD where it is available, else by a table. */
export class Normalization {
  /** The means, then the standard deviations. */
  readonly #numbers: readonly [...Channels, ...Channels];
  readonly #startSimd: () => SimdModule | null;
  #table: Float32Array | undefined;

  constructor(mean: Channels, std: Channels, startSimd: () => SimdModule | null = sharedSimdModule) {
    this.#numbers = [...mean, ...std];
    this.#startSimd = startSimd;
  }

  /** Writes an image's planes (CHW) into an array, starting at an offset. */
  writePlanes(image: RgbImage, into: Float32Array, offset: number): void {
    const simd = this.#startSimd();
    if (!simd || !this.#writeInSimd(simd, image, into, offset)) this.#writeByTable(image, into, offset);
  }

  /** Returns false if the module has no memory for a strip. */
  #writeInSimd(simd: SimdModule, image: RgbImage, into: Float32Array, offset: number): boolean {
    const memory = simd.reserve(STRIP_PIXELS * CHANNELS * 5 + SPARE_BYTES);
    if (!memory) return false;
    const planes = STRIP_PIXELS * CHANNELS + SPARE_BYTES;
    const floats = new Float32Array(memory.buffer, planes, STRIP_PIXELS * CHANNELS);
    const plane = image.height * image.width;
    for (let from = 0; from < plane; from += STRIP_PIXELS) {
      const count = Math.min(STRIP_PIXELS, plane - from);
      memory.set(image.data.subarray(from * CHANNELS, (from + count) * CHANNELS));
      const fours = Math.ceil(count / 4) * 4;
      simd.calls.normalize(0, fours, planes, STRIP_PIXELS * 4, ...this.#numbers);
      for (let channel = 0; channel < CHANNELS; channel++) {
        const strip = floats.subarray(channel * STRIP_PIXELS, channel * STRIP_PIXELS + count);
        into.set(strip, offset + channel * plane + from);
      }
    }
    return true;
  }

  /** The normalised value for each channel and byte, 3 × 256 floats. */
  get table(): Float32Array {
    this.#table ??= createTable(this.#numbers);
    return this.#table;
  }

  #writeByTable({ data, height, width }: RgbImage, into: Float32Array, offset: number): void {
    const { table } = this;
    const plane = height * width;
    for (let i = 0, from = 0, to = offset; i < plane; i++, from += CHANNELS, to++) {
      into[to] = table[data[from]!]!;
      into[to + plane] = table[256 + data[from + 1]!]!;
      into[to + 2 * plane] = table[512 + data[from + 2]!]!;
    }
  }
}

function createTable(numbers: readonly number[]): Float32Array {
  const table = new Float32Array(CHANNELS * 256);
  for (let channel = 0; channel < CHANNELS; channel++) {
    const mean = Math.fround(numbers[channel]!);
    const std = Math.fround(numbers[CHANNELS + channel]!);
    for (let byte = 0; byte < 256; byte++) {
      table[channel * 256 + byte] = Math.fround(Math.fround(Math.fround(byte / 255) - mean) / std);
    }
  }
  return table;
}
