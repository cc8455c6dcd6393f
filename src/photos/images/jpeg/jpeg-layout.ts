/** The memory layout while `wasm/jpeg.ts` decodes an image. */
import type { JpegHeader } from './jpeg-header.js';
import { HUFFMAN_BYTES } from './jpeg-tables.js';

/** The same addresses as in `wasm/jpeg-state.ts`. */
export const ZIGZAG_AT = 0;
export const QUANTS_AT = 128;
export const QUANT_BYTES = 128;
export const COMPONENTS_AT = 896;
export const COMPONENT_BYTES = 32;
const FREE = 1280;

/** Bytes of the file in memory at a time: enough for most photos on the web as a whole. */
const INPUT_BYTES = 131_072;
const BLOCK = 8;
/** The last vector of a row is read and written beyond its end. */
const SPARE_BYTES = 64;
/** Rows of chroma to keep from the previous MCUs if rows are interpolated; of luma it is one row. */
const KEPT_CHROMA_ROWS = 2;

/** The part of a component in one row of MCUs. */
export interface JpegPlane {
  /** Address of the first row of this row of MCUs; kept rows are before it. */
  readonly at: number;
  readonly pitch: number;
  readonly rows: number;
  readonly keptRows: number;
}

/** Addresses and pitches in bytes. */
export interface JpegLayout {
  /** For each component, the table for its DC coefficients and the one for its AC coefficients. */
  readonly tables: readonly (readonly [number, number])[];
  readonly planes: readonly JpegPlane[];
  /** Two lines of chroma, in 16-bit samples. */
  readonly lines: number;
  /** Rows of RGB: those of an MCU, and the one before. */
  readonly strip: number;
  readonly input: number;
  readonly inputBytes: number;
  readonly mcusPerRow: number;
  readonly mcuRows: number;
  readonly bytes: number;
}

export function layOutJpeg({ height, width, components }: JpegHeader, fileBytes: number): JpegLayout {
  let end = FREE;
  const take = (bytes: number): number => {
    const at = end;
    end += Math.ceil(bytes / 16) * 16;
    return at;
  };
  const { across, down } = components[0]!;
  const mcusPerRow = Math.ceil(width / (BLOCK * across));
  const samples = Math.ceil(width / across);
  const rowBytes = width * 3;
  const inputBytes = Math.min(INPUT_BYTES, fileBytes);
  return {
    tables: components.map(() => [take(HUFFMAN_BYTES), take(HUFFMAN_BYTES)] as const),
    planes: components.map((component, index) => {
      const pitch = Math.ceil((mcusPerRow * component.across * BLOCK) / 16) * 16;
      const rows = component.down * BLOCK;
      const keptRows = down === 1 ? 0 : index === 0 ? 1 : KEPT_CHROMA_ROWS;
      return { at: take((keptRows + rows) * pitch + SPARE_BYTES) + keptRows * pitch, pitch, rows, keptRows };
    }),
    lines: take((samples * 2 + SPARE_BYTES) * 2) + 16,
    strip: take((down * BLOCK + 1) * rowBytes + SPARE_BYTES),
    input: take(inputBytes + SPARE_BYTES),
    inputBytes,
    mcusPerRow,
    mcuRows: Math.ceil(height / (BLOCK * down)),
    bytes: end,
  };
}
