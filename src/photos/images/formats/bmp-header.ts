/** The header of a BMP file: OS/2 1.x, and Windows from BITMAPINFOHEADER to BITMAPV5HEADER. */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';

/** The file ends before its image does; the message says which part is missing. */
export class CutOff extends Error {}

/** How the pixels of a BMP file are stored. */
export interface BmpHeader extends Size {
  /** Bits per pixel. */
  readonly bits: 1 | 4 | 8 | 16 | 24 | 32;
  /** Run lengths of 8-bit or 4-bit indices; `none` is plain rows of pixels. */
  readonly compression: 'none' | 'rle8' | 'rle4';
  /** Whether the first stored row is the top one; else it is the bottom one. */
  readonly isTopDown: boolean;
  /** Three bytes per colour: red, green, blue; null if pixels have 16 bits or more. */
  readonly palette: Uint8Array | null;
  /** The bits of a pixel that are red, green and blue; null if pixels have 8 bits or fewer. */
  readonly masks: readonly [number, number, number] | null;
  /** The bits of a pixel that are alpha, as far as Pillow reads them; 0 if none are. */
  readonly alphaMask: number;
  /** Offset of the pixels in the file. */
  readonly dataOffset: number;
}

const FILE_HEADER_BYTES = 14;
const OS2_HEADER_BYTES = 12;
/** Sizes of the headers that Windows and OS/2 wrote and that Pillow reads; the size identifies the version. */
const HEADER_BYTES: ReadonlySet<number> = new Set([OS2_HEADER_BYTES, 40, 52, 56, 64, 108, 124]);
const BITS = [1, 4, 8, 16, 24, 32] as const;
const BITFIELDS = 3;
const COMPRESSIONS = ['none', 'rle8', 'rle4', 'none'] as const;
/** Masks of red, green and blue if the file has no masks. */
const MASKS_555 = [0x7c00, 0x3e0, 0x1f] as const;
const MASKS_888 = [0xff0000, 0xff00, 0xff] as const;

/** Whether bytes begin like a BMP file, or like one without its file header (a DIB). */
export function isBmp(bytes: Uint8Array): boolean {
  return hasFileHeader(bytes) || isBareDib(bytes);
}

function hasFileHeader(bytes: Uint8Array): boolean {
  return bytes[0] === 0x42 && bytes[1] === 0x4d;
}

/** A header size of 12 to 124 alone is weak evidence, so the number of planes must also be 1. */
function isBareDib(bytes: Uint8Array): boolean {
  if (bytes.byteLength < 16) return false;
  const view = viewOf(bytes);
  const headerBytes = view.getUint32(0, true);
  return HEADER_BYTES.has(headerBytes) && view.getUint16(headerBytes === 12 ? 8 : 12, true) === 1;
}

/**
 * Reads the header of a BMP file. It allocates nothing in proportion to the size in the header.
 *
 * @throws Error with the reason if the header is invalid or of an unsupported form; {@link CutOff} if the file ends too early.
 */
export function readBmpHeader(bytes: Uint8Array): BmpHeader {
  const start = hasFileHeader(bytes) ? FILE_HEADER_BYTES : 0;
  if (bytes.byteLength < start + 4) throw new Error('it is too short for a BMP header');
  const view = viewOf(bytes);
  const headerBytes = view.getUint32(start, true);
  if (!HEADER_BYTES.has(headerBytes))
    throw new Error(`its BMP header has ${headerBytes} bytes, which is no known version`);
  const end = start + headerBytes;
  if (bytes.byteLength < end) throw new CutOff('its BMP header is cut off');
  const isOs2 = headerBytes === OS2_HEADER_BYTES;
  const width = isOs2 ? view.getUint16(start + 4, true) : view.getInt32(start + 4, true);
  const height = isOs2 ? view.getUint16(start + 6, true) : view.getInt32(start + 8, true);
  if (width <= 0 || height === 0) throw new Error(`its BMP header gives a size of ${width} × ${height}`);
  const bits = BITS.find((known) => known === view.getUint16(start + (isOs2 ? 10 : 14), true));
  if (bits === undefined) throw new Error('its BMP header does not say 1, 4, 8, 16, 24 or 32 bits per pixel');
  const compressionCode = isOs2 ? 0 : view.getUint32(start + 16, true);
  const compression = COMPRESSIONS[compressionCode];
  if (compression === undefined) throw new Error(`its BMP compression (${compressionCode}) is not supported`);
  if (compressionCode === BITFIELDS ? bits < 16 : compression !== 'none' && bits > 8)
    throw new Error(`its BMP compression (${compressionCode}) does not go with ${bits} bits per pixel`);

  const hasMasks = compressionCode === BITFIELDS;
  // After a header of 40 bytes the masks follow.
  const paletteStart = hasMasks && headerBytes === 40 ? end + 12 : end;
  const masks = bits <= 8 ? null : hasMasks ? readMasks(view, start + 40, bits) : defaultMasks(bits);
  const colours = bits > 8 ? 0 : countColours(isOs2 ? 0 : view.getUint32(start + 32, true), bits);
  const entryBytes = isOs2 ? 3 : 4;
  const paletteEnd = paletteStart + colours * entryBytes;
  const given = start === 0 ? 0 : view.getUint32(10, true);
  return {
    width,
    height: Math.abs(height),
    bits,
    compression,
    isTopDown: height < 0,
    palette: bits > 8 ? null : readPalette(bytes, paletteStart, Math.min(colours, 2 ** bits), entryBytes),
    masks,
    alphaMask: bits === 32 && hasMasks ? readAlphaMask(view, start, headerBytes) : 0,
    // Some writers do not count the palette in the offset, or write 0. Pillow reads these files, too.
    dataOffset: given === 0 || (bits <= 8 && given === end) ? paletteEnd : given,
  };
}

function countColours(given: number, bits: number): number {
  if (given > 65_536) throw new Error(`its BMP palette has ${given} colours`);
  return given === 0 ? 2 ** bits : given;
}

function defaultMasks(bits: number): readonly [number, number, number] {
  return bits === 16 ? MASKS_555 : MASKS_888;
}

function readMasks(view: DataView, at: number, bits: number): readonly [number, number, number] {
  if (view.byteLength < at + 12) throw new CutOff('its BMP masks are cut off');
  const masks = [0, 4, 8].map((offset) => view.getUint32(at + offset, true));
  // Some programs write zeros for the usual masks.
  if (bits === 32 && masks.every((mask) => mask === 0)) return MASKS_888;
  if (!masks.every((mask) => isRun(mask) && mask < 2 ** bits)) {
    const shown = masks.map((mask) => `0x${mask.toString(16)}`).join(', ');
    throw new Error(`its BMP masks (${shown}) are not supported: each must be 1 to 8 adjacent bits`);
  }
  // There are three: one per offset above.
  return masks as unknown as readonly [number, number, number];
}

/** Headers of 56 bytes and more have one; Pillow takes the rest of a pixel without any masks for alpha. */
function readAlphaMask(view: DataView, start: number, headerBytes: number): number {
  const [red, green, blue, alpha] = [40, 44, 48, 52].map((offset) =>
    headerBytes > offset ? view.getUint32(start + offset, true) : 0,
  );
  return alpha! !== 0 ? alpha! : headerBytes > 48 && red === 0 && green === 0 && blue === 0 ? 0xff00_0000 : 0;
}

/** Whether a mask is a single run of 1 to 8 bits. */
function isRun(mask: number): boolean {
  const run = mask >>> (31 - Math.clz32(mask & -mask));
  return mask !== 0 && run < 256 && (run & (run + 1)) === 0;
}

/** The file stores blue, green, red. */
function readPalette(bytes: Uint8Array, start: number, colours: number, entryBytes: number): Uint8Array {
  if (bytes.byteLength < start + colours * entryBytes) throw new CutOff('its BMP palette is cut off');
  const palette = new Uint8Array(colours * 3);
  for (let colour = 0; colour < colours; colour++) {
    for (let channel = 0; channel < 3; channel++)
      palette[colour * 3 + channel] = bytes[start + colour * entryBytes + 2 - channel]!;
  }
  return palette;
}
