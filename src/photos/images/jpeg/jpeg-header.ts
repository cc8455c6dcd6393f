/** The headers of those JPEGs that this package decodes itself (ITU-T T.81, annex B). */
import { textOf, viewOf } from '../pixels/data-view.js';
import { MAX_PARTS } from '../pixels/part-count.js';
import type { Size } from '../pixels/geometry.js';

/** A Huffman table as stored in a file. */
export interface HuffmanSpec {
  /** The number of codes of each length, 1 to 16 bits. */
  readonly counts: Uint8Array;
  /** The symbols of the codes, in the order of the codes. */
  readonly symbols: Uint8Array;
}

/** One plane of a JPEG. */
export interface JpegComponent {
  readonly id: number;
  /** Horizontal blocks per MCU. */
  readonly across: number;
  /** Vertical blocks per MCU. */
  readonly down: number;
  /** Number of its quantisation table. */
  readonly quant: number;
}

/** Everything needed to decode the scan. */
export interface JpegHeader extends Size {
  readonly components: readonly JpegComponent[];
  /** For each component, 64 factors in zigzag order. */
  readonly quants: readonly Uint8Array[];
  /** For each component, the tables for its DC and its AC coefficients. */
  readonly tables: readonly { readonly dc: HuffmanSpec; readonly ac: HuffmanSpec }[];
  /** MCUs between restart markers; 0 if there are none. */
  readonly restartInterval: number;
  /** Whether no EXIF tag turns the image. */
  readonly isUpright: boolean;
  /** The first byte of entropy-coded data. */
  readonly scanAt: number;
}

const MAX_SIDE = 65_500;
const MAX_TABLE_ID = 3;
const MAX_SYMBOLS = 256;
/** libjpeg refuses tables with larger symbols, even unused ones. */
const MAX_DC_SYMBOL = 15;

interface Parts {
  frame?: Size & { readonly components: readonly JpegComponent[] };
  readonly quants: Map<number, Uint8Array>;
  readonly dc: Map<number, HuffmanSpec>;
  readonly ac: Map<number, HuffmanSpec>;
  restartInterval: number;
  isJfif: boolean;
  isAdobe: boolean;
  isUpright: boolean;
}

/**
 * Reads the header of a baseline JPEG with one scan: grey, or YCbCr with 4:4:4, 4:2:2 or 4:2:0 sampling.
 *
 * @returns Undefined for every other JPEG, and for anything invalid or that libjpeg warns about.
 */
export function readJpegHeader(bytes: Uint8Array): JpegHeader | undefined {
  const parts: Parts = {
    quants: new Map(),
    dc: new Map(),
    ac: new Map(),
    restartInterval: 0,
    isJfif: false,
    isAdobe: false,
    isUpright: true,
  };
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return undefined;
  let at = 2;
  // Another decoder refuses a file with more segments.
  for (let part = 0; part < MAX_PARTS && at + 4 <= bytes.length && bytes[at] === 0xff; part++) {
    const marker = bytes[at + 1]!;
    const end = at + 2 + bytes[at + 2]! * 256 + bytes[at + 3]!;
    if (end < at + 4 || end > bytes.length) return undefined;
    const body = bytes.subarray(at + 4, end);
    if (marker === 0xda) return finish(parts, body, end);
    if (!readSegment(parts, marker, body)) return undefined;
    at = end;
  }
  return undefined;
}

/** False if another decoder must read this JPEG. */
function readSegment(parts: Parts, marker: number, body: Uint8Array): boolean {
  switch (marker) {
    case 0xc0:
    case 0xc1:
      return readFrame(parts, body);
    case 0xc4:
      return readHuffman(parts, body);
    case 0xdb:
      return readQuants(parts, body);
    case 0xdd:
      parts.restartInterval = body.length === 2 ? body[0]! * 256 + body[1]! : 0;
      return body.length === 2;
    case 0xe0:
      return readJfif(parts, body);
    case 0xe1:
      parts.isUpright &&= isUpright(body);
      return true;
    case 0xee:
      return readAdobe(parts, body);
    case 0xfe:
      return true;
    default:
      // Data of other applications (APP2 to APP15).
      return marker > 0xe1 && marker < 0xf0;
  }
}

function readFrame(parts: Parts, body: Uint8Array): boolean {
  const number = body[5] ?? 0;
  if (parts.frame || body[0] !== 8 || body.length !== 6 + number * 3) return false;
  const height = body[1]! * 256 + body[2]!;
  const width = body[3]! * 256 + body[4]!;
  if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE) return false;
  const components: JpegComponent[] = [];
  for (let at = 6; at < body.length; at += 3) {
    const [id, sampling, quant] = [body[at]!, body[at + 1]!, body[at + 2]!];
    components.push({ id, across: sampling >> 4, down: sampling & 15, quant });
  }
  parts.frame = { height, width, components };
  return number === 1 ? isGrey(components) : number === 3 && isSubsampled(components, width);
}

function isGrey([only]: readonly JpegComponent[]): boolean {
  return only!.across === 1 && only!.down === 1;
}

function isSubsampled([luma, ...chroma]: readonly JpegComponent[], width: number): boolean {
  const { across, down } = luma!;
  const isKnown = (across === 1 || across === 2) && (down === 1 || down === across);
  // libjpeg does not interpolate one or two columns of chroma.
  return isKnown && (across === 1 || width > 4) && chroma.every((plane) => plane.across * plane.down === 1);
}

function readHuffman(parts: Parts, body: Uint8Array): boolean {
  let at = 0;
  while (at + 17 <= body.length) {
    const [kind, id] = [body[at]! >> 4, body[at]! & 15];
    const counts = body.subarray(at + 1, at + 17);
    const total = counts.reduce((sum, count) => sum + count, 0);
    at += 17 + total;
    if (kind > 1 || id > MAX_TABLE_ID || total > MAX_SYMBOLS || at > body.length) return false;
    const symbols = body.subarray(at - total, at);
    if (kind === 0 && symbols.some((symbol) => symbol > MAX_DC_SYMBOL)) return false;
    (kind === 0 ? parts.dc : parts.ac).set(id, { counts, symbols });
  }
  return at === body.length;
}

function readQuants(parts: Parts, body: Uint8Array): boolean {
  // For tables of 16 bits the first byte is larger.
  for (let at = 0; at < body.length; at += 65) {
    if (body[at]! > MAX_TABLE_ID || at + 65 > body.length) return false;
    parts.quants.set(body[at]!, body.subarray(at + 1, at + 65));
  }
  return true;
}

function readJfif(parts: Parts, body: Uint8Array): boolean {
  if (textOf(body, 5) !== 'JFIF\0') return true;
  parts.isJfif = true;
  return body.length >= 14 && body[5] === 1;
}

/** The tag of the orientation in EXIF, and its value for an upright image. */
const [ORIENTATION, UPRIGHT] = [0x0112, 1];

/**
 * Whether a JPEG's APP1 segment leaves the image upright: it is not EXIF, or its first directory has no orientation or orientation 1.
 *
 * @returns False for invalid structures, too, since another reader may still find an orientation in them.
 */
export function isUpright(body: Uint8Array): boolean {
  const text = textOf(body, 6);
  if (!text.startsWith('Exif')) return true;
  if (text !== 'Exif\0\0' || body.length < 14) return false;
  const view = viewOf(body.subarray(6));
  const order = view.getUint16(0);
  const isLittle = order === 0x4949;
  if ((!isLittle && order !== 0x4d4d) || view.getUint16(2, isLittle) !== 42) return false;
  const directory = view.getUint32(4, isLittle);
  if (directory + 2 > view.byteLength) return false;
  const count = view.getUint16(directory, isLittle);
  if (directory + 2 + count * 12 > view.byteLength) return false;
  for (let at = directory + 2; at < directory + 2 + count * 12; at += 12) {
    if (view.getUint16(at, isLittle) !== ORIENTATION) continue;
    const isShort = view.getUint16(at + 2, isLittle) === 3 && view.getUint32(at + 4, isLittle) === 1;
    if (!isShort || view.getUint16(at + 8, isLittle) !== UPRIGHT) return false;
  }
  return true;
}

/** Photoshop writes here how the colours are stored. */
function readAdobe(parts: Parts, body: Uint8Array): boolean {
  if (textOf(body, 5) !== 'Adobe') return true;
  parts.isAdobe = true;
  return body.length >= 12 && body[11] === 1;
}

function finish(parts: Parts, body: Uint8Array, scanAt: number): JpegHeader | undefined {
  const { frame, restartInterval, isUpright } = parts;
  if (!frame || !isWholeScan(frame.components, body) || !isYcbcr(parts, frame.components)) return undefined;
  const tables: { dc: HuffmanSpec; ac: HuffmanSpec }[] = [];
  const quants: Uint8Array[] = [];
  for (const [index, { quant }] of frame.components.entries()) {
    const ids = body[2 + index * 2]!;
    const dc = parts.dc.get(ids >> 4);
    const ac = parts.ac.get(ids & 15);
    const factors = parts.quants.get(quant);
    if (!dc || !ac || !factors) return undefined;
    tables.push({ dc, ac });
    quants.push(factors);
  }
  return { ...frame, quants, tables, restartInterval, isUpright, scanAt };
}

/** Whether the scan has all components, in order, with all their coefficients. */
function isWholeScan(components: readonly JpegComponent[], body: Uint8Array): boolean {
  const number = components.length;
  return (
    body.length === 4 + number * 2 &&
    body[0] === number &&
    components.every(({ id }, index) => body[1 + index * 2] === id) &&
    body[body.length - 3] === 0 &&
    body[body.length - 2] === 63 &&
    body[body.length - 1] === 0
  );
}

/** Whether libjpeg takes the colours for YCbCr: three components can also be RGB. */
function isYcbcr({ isJfif, isAdobe }: Parts, components: readonly JpegComponent[]): boolean {
  const isNumbered = components.every(({ id }, index) => id === index + 1);
  return components.length === 1 || isJfif || isAdobe || isNumbered;
}
