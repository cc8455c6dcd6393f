/**
 * Baseline JPEG → RGB on WebAssembly SIMD (`wasm/jpeg.ts`): the pixels of libjpeg-turbo, bit for bit, in less CPU time than a
 * call of sharp takes (docs/decisions/011-jpeg.md).
 *
 * JPEGs of other kinds, and damaged ones, are left to sharp, whose failure decides the error.
 */
import type { Size } from '../pixels/geometry.js';
import { readJpegHeader } from './jpeg-header.js';
import { layOutJpeg } from './jpeg-layout.js';
import { JpegScan, UnsoundJpeg } from './jpeg-scan.js';
import type { RgbImage, RgbRows } from '../pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from '../simd/simd-module.js';

/** Which JPEGs to leave to another decoder, apart from other kinds and damaged ones. */
export interface JpegOptions {
  /** Those with more pixels. */
  readonly limitPixels: number;
  /** Those that EXIF turns. */
  readonly isUpright: boolean;
}

/** Reads the rows of a JPEG. */
export interface JpegReader<T> {
  /** Bytes that it needs in the module's memory, starting at `freeAt`; null leaves this image to another decoder. */
  spareBytes(image: Size, freeAt: number): number | null;
  /** Reads the rows. The result is valid only if {@link readJpegRows} returns it. */
  read(rows: RgbRows, simd: SimdModule): T;
}

/**
 * Decodes a JPEG.
 *
 * @param startSimd - Starts the module to use; null leaves every image to another decoder.
 * @returns Undefined if another decoder must read the file: it is damaged, of another kind, or larger than allowed.
 */
export function decodeJpeg(
  bytes: Uint8Array,
  options: JpegOptions,
  startSimd: () => SimdModule | null = sharedSimdModule,
): RgbImage | undefined {
  const reader: JpegReader<RgbImage> = {
    spareBytes: () => 0,
    read: (rows) => {
      const { height, width } = rows;
      const data = new Uint8Array(height * width * 3);
      rows.copyRows(0, 0, height, width * 3, { data, offset: 0, pitch: width * 3 });
      return { height, width, data };
    },
  };
  return readJpegRows(bytes, options, startSimd, reader);
}

/** Decodes a JPEG row by row, without the whole image in memory; returns undefined where {@link decodeJpeg} does. */
export function readJpegRows<T>(
  bytes: Uint8Array,
  { limitPixels, isUpright }: JpegOptions,
  startSimd: () => SimdModule | null,
  reader: JpegReader<T>,
): T | undefined {
  const header = readJpegHeader(bytes);
  if (!header || header.height * header.width > limitPixels) return undefined;
  if (isUpright && !header.isUpright) return undefined;
  const simd = startSimd();
  const layout = layOutJpeg(header, bytes.length - header.scanAt);
  const spare = reader.spareBytes(header, layout.bytes);
  const memory = spare === null ? null : simd?.reserve(layout.bytes + spare);
  if (!simd || !memory) return undefined;
  try {
    const scan = new JpegScan({ calls: simd.calls, memory, file: bytes, header, layout });
    scan.start();
    const result = reader.read(scan, simd);
    scan.finish();
    return result;
  } catch (error) {
    if (error instanceof UnsoundJpeg || isTrap(error)) return undefined;
    throw error;
  }
}

/** A trap of WebAssembly, whose class the types of Node and ECMAScript do not declare, or no memory for the pixels. */
function isTrap(error: unknown): boolean {
  return error instanceof Error && (error.name === 'RuntimeError' || error instanceof RangeError);
}
