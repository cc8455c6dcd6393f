/** The memory of `wasm/resample.ts` while an image is resampled: its layout, and the format of kernels. */
import { oncePer } from '../../../base/once-per.js';
import type { Kernel } from './kernel.js';
import type { ResamplePlan } from './resample-plan.js';

/** A kernel as the module reads it. Every position has the same number of weights; unused ones are 0. */
export interface PackedKernel {
  /** Pairs of weights per position. */
  readonly pairs: number;
  /** 8 bytes per pair: the low halves of two weights, then their high halves; weight = high · 2^16 + low, both signed. */
  readonly weights: Int32Array;
}

/** Addresses and pitches in bytes, and numbers of rows. Parts that a plan does not need are empty. */
export interface SimdLayout {
  /** For each output row, the row that its first weight applies to. */
  readonly firsts: number;
  readonly rowWeights: number;
  /** For each output column, the byte in a strip's row that its first weight applies to. */
  readonly offsets: number;
  readonly columnWeights: number;
  /** Rows of the image. */
  readonly strip: number;
  readonly stripPitch: number;
  readonly stripRows: number;
  /** The image's column at which a strip begins. */
  readonly stripColumn: number;
  /** Rows after the horizontal pass: those that the next output row needs, and one more strip. */
  readonly window: number;
  readonly windowPitch: number;
  readonly windowRows: number;
  /** Rows after the vertical pass. */
  readonly result: number;
  readonly resultRows: number;
  /** Address of the end. */
  readonly end: number;
}

/** Size of a strip, well within a core's cache; measured in docs/decisions/009-simd.md. */
const STRIP_BYTES = 131_072;
/** The horizontal pass processes four rows at once. */
const ROWS_AT_ONCE = 4;
/** Rows of the image are copied whole, in one go, unless more than this of each row is not needed. */
const MAX_SPARE_BYTES = 1024;
/** The last vector of a row may be read and written beyond its end. */
const VECTOR_BYTES = 16;

/** Lays out the memory for an image of a width, starting at a multiple of 16. */
export function layOutSimd(
  imageWidth: number,
  plan: ResamplePlan,
  rows: PackedKernel | null,
  columns: PackedKernel | null,
  start: number,
): SimdLayout {
  let end = start;
  const take = (bytes: number): number => {
    const at = end;
    end += toVectors(bytes);
    return at;
  };
  const bytes = plan.width * 3;
  const needed = (plan.lastColumn - plan.firstColumn) * 3;
  const isTrimmed = imageWidth * 3 - needed > MAX_SPARE_BYTES;
  const stripPitch = isTrimmed ? needed : imageWidth * 3;
  // The horizontal pass writes one byte beyond a row, and the vertical one reads whole vectors.
  const windowPitch = toVectors(bytes + 1);
  const stripRows = rowsOfStrip(
    columns ? Math.max(stripPitch, windowPitch) : windowPitch,
    plan.lastRow - plan.firstRow,
  );
  const taps = rows ? rows.pairs * 2 : 0;
  // Fewer than `taps` rows are still needed when a strip is appended. Room for twice as many makes moving them rare.
  const windowRows = taps + Math.max(taps, stripRows);
  const resultRows = rows ? rowsOfStrip(bytes, plan.height) : 0;
  return {
    firsts: take(rows ? plan.height * 4 : 0),
    rowWeights: take(rows ? rows.weights.byteLength : 0),
    offsets: take(columns ? plan.width * 4 : 0),
    columnWeights: take(columns ? columns.weights.byteLength : 0),
    // Pixels with weight 0 are read, too, beyond the last one.
    strip: take(columns ? stripRows * stripPitch + columns.pairs * 6 + VECTOR_BYTES : 0),
    stripPitch,
    stripRows,
    stripColumn: isTrimmed ? plan.firstColumn : 0,
    window: take((windowRows + taps) * windowPitch),
    windowPitch,
    windowRows,
    result: take(rows ? resultRows * bytes + VECTOR_BYTES : 0),
    resultRows,
    end,
  };
}

/** How many rows to process at a time: those that fit a strip, at most all of them. */
function rowsOfStrip(rowBytes: number, count: number): number {
  const groups = Math.min(Math.floor(STRIP_BYTES / rowBytes / ROWS_AT_ONCE), Math.ceil(count / ROWS_AT_ONCE));
  return Math.max(1, groups) * ROWS_AT_ONCE;
}

function toVectors(bytes: number): number {
  return Math.ceil(bytes / VECTOR_BYTES) * VECTOR_BYTES;
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
