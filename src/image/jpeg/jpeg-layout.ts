/** Where everything lies in memory while `wasm/jpeg.ts` decodes an image. */
import type { JpegHeader } from './jpeg-header.js';
import { HUFFMAN_BYTES } from './jpeg-tables.js';

/** The addresses of `wasm/jpeg-state.ts`. */
export const ZIGZAG_AT = 0;
export const QUANTS_AT = 128;
export const QUANT_BYTES = 128;
export const COMPONENTS_AT = 896;
export const COMPONENT_BYTES = 32;
const FREE = 1280;

/** Bytes of the file that are in memory at a time: most photos of the web at once. */
const INPUT_BYTES = 131_072;
const BLOCK = 8;
/** Vectors are read and written beyond the end of a row. */
const SPARE_BYTES = 64;
/** Rows of chroma that are kept of the MCUs before, when those between rows are interpolated; of luma it is one. */
const KEPT_CHROMA_ROWS = 2;

/** A component's part of a row of MCUs. */
export interface JpegPlane {
  /** The first row of this row of MCUs; kept ones lie before it. */
  readonly at: number;
  readonly pitch: number;
  readonly rows: number;
  readonly keptRows: number;
}

/** Addresses and pitches in bytes. */
export interface JpegLayout {
  /** Of each component, the table for the first coefficient and the one for the others. */
  readonly tables: readonly (readonly [number, number])[];
  readonly planes: readonly JpegPlane[];
  /** Two lines of 16-bit samples of chroma. */
  readonly lines: number;
  /** Rows of RGB, as many as an MCU has, and the one before. */
  readonly strip: number;
  readonly input: number;
  readonly inputBytes: number;
  readonly mcusPerRow: number;
  readonly mcuRows: number;
  readonly bytes: number;
}

/** Lays out the parts for an image. */
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
