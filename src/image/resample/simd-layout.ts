/** Where everything lies in the memory of `wasm/resample.ts` while an image is resampled. */
import type { PackedKernel } from './packed-kernel.js';
import type { ResamplePlan } from './resample-plan.js';

/** Offsets and pitches in bytes; rows counted. Parts that a plan does not need are empty. */
export interface SimdLayout {
  /** Of each output row, the row where its first weight applies. */
  readonly firsts: number;
  readonly rowWeights: number;
  /** Of each output column, the byte of a strip's row where its first weight applies. */
  readonly offsets: number;
  readonly columnWeights: number;
  /** Some rows of the image. */
  readonly strip: number;
  readonly stripPitch: number;
  readonly stripRows: number;
  /** Column of the image where a strip begins. */
  readonly stripColumn: number;
  /** Rows after the horizontal pass: those that the next output row needs, and a strip more. */
  readonly window: number;
  readonly windowPitch: number;
  readonly windowRows: number;
  /** Rows after the vertical pass. */
  readonly result: number;
  readonly resultRows: number;
  /** Where all that ends. */
  readonly end: number;
}

/** Taken of an image at a time: well within a core's cache. Measured in docs/decisions/009. */
const STRIP_BYTES = 131_072;
/** The horizontal pass takes rows by four. */
const ROWS_AT_ONCE = 4;
/** Rows of the image are copied whole, several at once, unless more than this of each is not needed. */
const MAX_SPARE_BYTES = 1024;
/** A vector may be read beyond the last pixel of a row, and written beyond its end. */
const VECTOR_BYTES = 16;

/** Lays out the parts for an image of a width, from a multiple of 16 on. */
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
    end += roundUp(bytes, VECTOR_BYTES);
    return at;
  };
  const bytes = plan.width * 3;
  const needed = (plan.lastColumn - plan.firstColumn) * 3;
  const isTrimmed = imageWidth * 3 - needed > MAX_SPARE_BYTES;
  const stripPitch = isTrimmed ? needed : imageWidth * 3;
  // The horizontal pass writes a byte beyond a row, the vertical one reads whole vectors.
  const windowPitch = roundUp(bytes + 1, VECTOR_BYTES);
  const stripRows = rowsOfStrip(
    columns ? Math.max(stripPitch, windowPitch) : windowPitch,
    plan.lastRow - plan.firstRow,
  );
  const taps = rows ? rows.pairs * 2 : 0;
  // Fewer than `taps` rows are left over when a strip comes; with room for as many again, they are seldom moved.
  const windowRows = taps + Math.max(taps, stripRows);
  const resultRows = rows ? rowsOfStrip(bytes, plan.height) : 0;
  return {
    firsts: take(rows ? plan.height * 4 : 0),
    rowWeights: take(rows ? rows.weights.byteLength : 0),
    offsets: take(columns ? plan.width * 4 : 0),
    columnWeights: take(columns ? columns.weights.byteLength : 0),
    // Weights of 0 are read beyond the last pixel too.
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

/** How many rows of so many bytes to take at a time, of so many there are. */
function rowsOfStrip(rowBytes: number, count: number): number {
  const groups = Math.min(Math.floor(STRIP_BYTES / rowBytes / ROWS_AT_ONCE), Math.ceil(count / ROWS_AT_ONCE));
  return Math.max(1, groups) * ROWS_AT_ONCE;
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
