/** The directories of a TIFF, or of a BigTIFF, whose places have 64 bits. */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';
import { PartCount } from '../pixels/part-count.js';

/** How the colours of a TIFF are stored, as far as decoding depends on it. */
export type TiffColour = 'cmyk' | 'ycbcr' | 'other';

/** The bytes of a TIFF: all of them, or a file of which only what is asked for is read. */
export interface TiffFile {
  readonly length: number;
  /** `size` bytes from a place on, which lie inside the file. */
  view(at: number, size: number): DataView;
}

export function inMemory(bytes: Uint8Array): TiffFile {
  const view = viewOf(bytes);
  return { length: bytes.length, view: (at, size) => new DataView(view.buffer, view.byteOffset + at, size) };
}

const SUBFILE_TYPE = 254;
const WIDTH = 256;
const HEIGHT = 257;
const COMPRESSION = 259;
const ORIENTATION = 274;
const EXTRA_SAMPLES = 338;
const PHOTOMETRIC_INTERPRETATION = 262;
/** The tags of the places and lengths of strips, and those of tiles. */
const PIXEL_TAGS = [
  [273, 279],
  [324, 325],
] as const;

const BYTE = 1;
const SHORT = 3;
const LONG = 4;
const LONG8 = 16;
/** Bytes of a value, by the number of its type. */
const TYPE_BYTES = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8];
const BIG = 43;

/** What a directory of a TIFF can list; a BigTIFF could list more. */
const MOST_ENTRIES = 65_535;

const SEPARATED = 5;
const YCBCR = 6;
const OLD_JPEG = 6;
const JPEG = 7;

/** An entry of a directory: its values are integers, unless it has a type of no interest here. */
interface TiffEntry {
  readonly count: number;
  /** Value `i`; 0 if the entry has fewer. */
  valueAt(i: number): number;
}

interface TiffDirectory {
  readonly entries: ReadonlyMap<number, TiffEntry>;
  /** Whether the file holds the whole directory and all of its values. */
  readonly isWhole: boolean;
}

/** Numbers of a TIFF, in its byte order and with its width of places. Beyond the end of the file, they are 0. */
interface TiffNumbers {
  /** Bytes of a place in the file: 4, or 8 in a BigTIFF. */
  readonly wide: 4 | 8;
  readonly short: (at: number) => number;
  readonly long: (at: number) => number;
  /** A number of eight bytes, rounded to a double: places beyond 2⁵³ lie beyond the end of every file. */
  readonly long8: (at: number) => number;
  /** A place, or a count of values. */
  readonly place: (at: number) => number;
}

function readNumbers(file: TiffFile): TiffNumbers {
  const fits = (at: number, size: number): boolean => at + size <= file.length;
  const isLittle = fits(0, 1) && file.view(0, 1).getUint8(0) === 0x49;
  const short = (at: number): number => (fits(at, 2) ? file.view(at, 2).getUint16(0, isLittle) : 0);
  const long = (at: number): number => (fits(at, 4) ? file.view(at, 4).getUint32(0, isLittle) : 0);
  const long8 = (at: number): number =>
    fits(at, 8) ? Number(file.view(at, 8).getBigUint64(0, isLittle)) : 0;
  const isBig = short(2) === BIG;
  return { wide: isBig ? 8 : 4, short, long, long8, place: isBig ? long8 : long };
}

/** Where the entries of a directory lie; `next` is the place of the next directory's place. */
interface Entries {
  readonly start: number;
  readonly next: number;
  readonly entryBytes: number;
}

/** @param at - The place of the directory; by default, of the first one. */
function findEntries(
  { length }: TiffFile,
  { wide, short, place }: TiffNumbers,
  at: number = place(wide),
): Entries | undefined {
  const countBytes = wide === 8 ? 8 : 2;
  const start = at + countBytes;
  if (length < 2 * wide || start > length) return undefined;
  const count = wide === 8 ? place(start - countBytes) : short(start - countBytes);
  if (count > MOST_ENTRIES) return undefined;
  const entryBytes = 4 + 2 * wide;
  return { start, next: start + count * entryBytes, entryBytes };
}

/** Reads the first directory of a file in memory. */
function readFirst(bytes: Uint8Array): TiffDirectory {
  const file = inMemory(bytes);
  const numbers = readNumbers(file);
  return readDirectory(file, numbers, findEntries(file, numbers));
}

/** Reads a directory. Entries whose values lie beyond the end of the file are left out. */
function readDirectory(file: TiffFile, numbers: TiffNumbers, found: Entries | undefined): TiffDirectory {
  const entries = new Map<number, TiffEntry>();
  const { wide, short, place } = numbers;
  if (!found) return { entries, isWhole: false };
  const { start, next, entryBytes } = found;
  let isWhole = next <= file.length;
  for (let at = start; at < next && at + entryBytes <= file.length; at += entryBytes) {
    const type = short(at + 2);
    const count = place(at + 4);
    const valueBytes = TYPE_BYTES[type] ?? 0;
    // Of a type that nobody knows, the count means nothing.
    if (valueBytes === 0) continue;
    const sizeBytes = valueBytes * count;
    // Values that fit are in the entry itself.
    const from = sizeBytes <= wide ? at + 4 + wide : place(at + 4 + wide);
    if (from + sizeBytes > file.length) {
      isWhole = false;
      continue;
    }
    const valueAt = (i: number): number => {
      if (i >= count) return 0;
      if (type === BYTE) return file.view(from + i, 1).getUint8(0);
      if (type === SHORT) return short(from + i * 2);
      if (type === LONG8) return numbers.long8(from + i * 8);
      return type === LONG ? numbers.long(from + i * 4) : 0;
    };
    entries.set(short(at), { count, valueAt });
  }
  return { entries, isWhole };
}

/**
 * The file without its later images: libtiff would walk the directories of all of them, which takes 13 µs each.
 *
 * @returns A copy; the bytes themselves if there is only one image, or the directory is damaged.
 */
export function cutOutFirstImage(bytes: Uint8Array): Uint8Array {
  const file = inMemory(bytes);
  const numbers = readNumbers(file);
  const { wide, place } = numbers;
  const found = findEntries(file, numbers);
  if (!found || found.next + wide > bytes.length || place(found.next) === 0) return bytes;
  return Uint8Array.from(bytes).fill(0, found.next, found.next + wide);
}

/** The size of the first image; undefined if the directory does not have it. */
export function readTiffSize(bytes: Uint8Array): Size | undefined {
  const { entries } = readFirst(bytes);
  const width = entries.get(WIDTH)?.valueAt(0);
  const height = entries.get(HEIGHT)?.valueAt(0);
  return width === undefined || height === undefined ? undefined : { width, height };
}

/** The orientation of the first image, or of the photo that an EXIF block belongs to; undefined if it is not told. */
export function readTiffOrientation(bytes: Uint8Array): number | undefined {
  return readFirst(bytes).entries.get(ORIENTATION)?.valueAt(0);
}

/** Whether the first image has an alpha channel: more samples than colours, whose kind is not "unspecified". */
export function hasTiffAlpha(bytes: Uint8Array): boolean {
  return hasAlpha(readFirst(bytes));
}

function hasAlpha({ entries }: TiffDirectory): boolean {
  const kind = entries.get(EXTRA_SAMPLES)?.valueAt(0);
  return kind !== undefined && kind !== 0;
}

/** How the colours of the first image are stored; `ycbcr` only where no JPEG decoder turns them into RGB. */
export function readTiffColour(bytes: Uint8Array): TiffColour {
  return colourOf(readFirst(bytes));
}

function colourOf({ entries }: TiffDirectory): TiffColour {
  const compression = entries.get(COMPRESSION)?.valueAt(0);
  const photometric = entries.get(PHOTOMETRIC_INTERPRETATION)?.valueAt(0);
  if (photometric === SEPARATED) return 'cmyk';
  return photometric === YCBCR && compression !== JPEG && compression !== OLD_JPEG ? 'ycbcr' : 'other';
}

/** Whether the first directory, one of its values, or a strip or tile of pixels lies beyond the end. */
export function isTiffCutOff(bytes: Uint8Array): boolean {
  return isCutOff(readFirst(bytes), bytes.length);
}

function isCutOff({ entries, isWhole }: TiffDirectory, length: number): boolean {
  if (!isWhole) return true;
  for (const [offsetTag, lengthTag] of PIXEL_TAGS) {
    const offsets = entries.get(offsetTag);
    const lengths = entries.get(lengthTag);
    for (let i = 0; i < (offsets?.count ?? 0); i++)
      if (offsets!.valueAt(i) + (lengths?.valueAt(i) ?? 0) > length) return true;
  }
  return false;
}

/** An image of a TIFF. */
export interface TiffPage extends Size {
  /** Its place among the images of the file, from 0. */
  readonly page: number;
  /** The size of its tiles; null if it is stored in strips. */
  readonly tile: Size | null;
  /** Whether it says that it is another image made smaller. */
  readonly isReduced: boolean;
  readonly colour: TiffColour;
  readonly hasAlpha: boolean;
  readonly orientation: number;
  /** Whether pixels are missing: the file ends before them, or lists fewer strips or tiles than the size needs. */
  isCutOff(): boolean;
}

const TILE_WIDTH = 322;
const TILE_HEIGHT = 323;
const STRIP_HEIGHT = 278;
const REDUCED = 1;

/** The images of a TIFF, in order. Throws `TooManyParts`. */
export function readTiffPages(file: TiffFile): TiffPage[] {
  const parts = new PartCount();
  const numbers = readNumbers(file);
  const pages: TiffPage[] = [];
  const seen = new Set<number>();
  let found = findEntries(file, numbers);
  while (found && !seen.has(found.start)) {
    seen.add(found.start);
    parts.add();
    const directory = readDirectory(file, numbers, found);
    pages.push(readPage(directory, pages.length, file.length));
    const next = numbers.place(found.next);
    found = next === 0 ? undefined : findEntries(file, numbers, next);
  }
  return pages;
}

function readPage(directory: TiffDirectory, page: number, length: number): TiffPage {
  const numberOf = (tag: number): number => directory.entries.get(tag)?.valueAt(0) ?? 0;
  const [width, height] = [numberOf(WIDTH), numberOf(HEIGHT)];
  const tile = { width: numberOf(TILE_WIDTH), height: numberOf(TILE_HEIGHT) };
  const isTiled = tile.width > 0 && tile.height > 0;
  const least = isTiled
    ? Math.ceil(width / tile.width) * Math.ceil(height / tile.height)
    : Math.ceil(height / (numberOf(STRIP_HEIGHT) || height));
  const listed = directory.entries.get(PIXEL_TAGS[isTiled ? 1 : 0][0])?.count ?? 0;
  return {
    page,
    width,
    height,
    tile: isTiled ? tile : null,
    isReduced: (numberOf(SUBFILE_TYPE) & REDUCED) !== 0,
    colour: colourOf(directory),
    hasAlpha: hasAlpha(directory),
    orientation: numberOf(ORIENTATION) || 1,
    isCutOff: () => listed < least || isCutOff(directory, length),
  };
}
