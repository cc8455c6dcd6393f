/**
 * Checks the pages of a Parquet column before hyparquet reads them. It believes what a page says of itself, so that a wrong byte makes it
 * loop for ever, or fill the memory with values that do not exist.
 */
import * as zlib from 'node:zlib';
import type { Compressors, CompressionCodec } from 'hyparquet';
import { unpackSnappy } from './snappy.js';

/** Undefined in older versions of Node.js. */
const { zstdDecompressSync } = zlib as { readonly zstdDecompressSync?: typeof zlib.gunzipSync };

/** hyparquet itself knows Snappy only, and that byte by byte. */
export const COMPRESSORS: Compressors = {
  SNAPPY: unpackSnappy,
  GZIP: (bytes, maxOutputLength) => zlib.gunzipSync(bytes, { maxOutputLength }),
  BROTLI: (bytes, maxOutputLength) => zlib.brotliDecompressSync(bytes, { maxOutputLength }),
  ZSTD(bytes, maxOutputLength) {
    if (zstdDecompressSync) return zstdDecompressSync(bytes, { maxOutputLength });
    throw new Error(
      'it is compressed with Zstandard, which Node.js reads from version 22.15 on; write it with Snappy or gzip',
    );
  },
};

/** What the pages of a column must hold. */
export interface ColumnFacts {
  readonly codec: CompressionCodec;
  /** The number of values, empty ones included. */
  readonly values: number;
  /** The highest levels of the column's place in the schema. */
  readonly definition: number;
  readonly repetition: number;
  /** The least bytes of a value in a dictionary. */
  readonly leastBytes: number;
}

/** The most bytes of a page, decompressed. */
const MAX_PAGE_BYTES = 2 ** 30;
/** Snappy makes at most 64 bytes of 3. */
const MOST_SNAPPY_FACTOR = 64 / 3;

/** Parquet's numbers of encodings whose values are runs. */
const ENCODINGS = { dictionary: new Set([2, 8]), runs: 3 } as const;

/**
 * Checks the pages of a column of a row group. They must follow each other, and none may be larger than what is left. Runs must be no
 * longer than the values of their page. Together, the pages must hold the values of the column.
 *
 * @param onPage - Called with what is decompressed.
 * @throws Error that names the damaged page.
 */
export async function checkPages(
  bytes: ArrayBuffer,
  facts: ColumnFacts,
  onPage?: (unpacked: Uint8Array) => void,
): Promise<void> {
  const { deserializeTCompactProtocol } = await import('hyparquet/src/thrift.js');
  const unpack: Unpack = (packed, unpacked) => {
    if (facts.codec === 'UNCOMPRESSED') return packed;
    const compressor = COMPRESSORS[facts.codec];
    if (!compressor)
      throw new Error(
        `it is compressed with ${facts.codec}, which is not read; write it with Snappy, gzip or Zstandard`,
      );
    if (facts.codec === 'SNAPPY' && unpacked > packed.length * MOST_SNAPPY_FACTOR + 64) return undefined;
    const page = compressor(packed, unpacked);
    onPage?.(page);
    return page;
  };
  const reader = { view: new DataView(bytes), offset: 0 };
  let values = 0;
  while (reader.offset < bytes.byteLength) {
    const at = reader.offset;
    const header = deserializeTCompactProtocol(reader) as PageHeader;
    const packed = header.field_3;
    const isInside = isCount(packed, bytes.byteLength - reader.offset);
    const body = isInside ? new Uint8Array(bytes, reader.offset, packed) : undefined;
    const count = body && checkPage(header, body, facts, values, unpack);
    if (count === undefined) throw new Error(`the page at byte ${at} of a column is damaged`);
    values += count;
    reader.offset += body!.length;
  }
  if (values !== facts.values)
    throw new Error(`the pages of a column hold ${values} of its ${facts.values} values`);
}

/** Decompresses the values of a page. */
type Unpack = (packed: Uint8Array, unpacked: number) => Uint8Array | undefined;

/** The number of a page's values; `undefined` for a damaged one. */
function checkPage(
  header: PageHeader,
  body: Uint8Array,
  facts: ColumnFacts,
  before: number,
  unpack: Unpack,
): number | undefined {
  const { field_2: unpacked, field_5: first, field_7: dictionary, field_8: second } = header;
  if (!isCount(unpacked, MAX_PAGE_BYTES)) return undefined;
  if (dictionary) return isCount(dictionary.field_1, unpacked / facts.leastBytes) ? 0 : undefined;
  const left = facts.values - before;
  if (first) {
    const { field_1: count, field_2: encoding } = first;
    const page = isCount(count, left) ? unpack(body, unpacked) : undefined;
    if (!page || page.length !== unpacked || !isCount(count, left)) return undefined;
    const runs = new Runs(page, count);
    const isRight =
      (facts.repetition === 0 || runs.skipSized(facts.repetition)) &&
      (facts.definition === 0 || runs.skipSized(facts.definition)) &&
      runs.checkValues(encoding);
    return isRight ? count : undefined;
  }
  if (!second) return undefined;
  const { field_1: count, field_4: encoding, field_5: definition, field_6: repetition } = second;
  const levels = [repetition, definition];
  if (!isCount(count, left) || !levels.every((size) => isCount(size, Math.min(body.length, unpacked))))
    return undefined;
  const [repetitionBytes, definitionBytes] = levels as [number, number];
  const start = repetitionBytes + definitionBytes;
  if (start > Math.min(body.length, unpacked)) return undefined;
  const ofRepetition = new Runs(body.subarray(0, repetitionBytes), count);
  const ofDefinition = new Runs(body.subarray(repetitionBytes, start), count);
  const isLevelled =
    (facts.repetition === 0 || ofRepetition.skip(facts.repetition)) &&
    (facts.definition === 0 || ofDefinition.skip(facts.definition));
  const packed = body.subarray(start);
  const page = second.field_7 === false ? packed : unpack(packed, unpacked - start);
  const isRight = isLevelled && page?.length === unpacked - start;
  return isRight && new Runs(page, count).checkValues(encoding) ? count : undefined;
}

/** Runs of equal values and of packed bits, one after the other. */
class Runs {
  readonly #bytes: Uint8Array;
  readonly #values: number;
  #at = 0;

  constructor(bytes: Uint8Array, values: number) {
    this.#bytes = bytes;
    this.#values = values;
  }

  /** Skips levels that begin with their size in bytes. */
  skipSized(most: number): boolean {
    const { length } = this.#bytes;
    if (this.#at + 4 > length) return false;
    const size = new DataView(this.#bytes.buffer, this.#bytes.byteOffset).getUint32(this.#at, true);
    const end = this.#at + 4 + size;
    if (end > length) return false;
    this.#at += 4;
    const isRight = this.#walk(bitsOf(most), end, this.#values);
    this.#at = end;
    return isRight;
  }

  /** Skips levels of the bytes' own size. */
  skip(most: number): boolean {
    return this.#walk(bitsOf(most), this.#bytes.length, this.#values);
  }

  /** Checks values if they are runs: the numbers of entries of a dictionary, or truths. */
  checkValues(encoding: unknown): boolean {
    const isRuns = encoding === ENCODINGS.runs;
    if (isRuns) return this.#at === this.#bytes.length || this.#skipTruths();
    if (!ENCODINGS.dictionary.has(encoding as number) || this.#at === this.#bytes.length) return true;
    const width = this.#bytes[this.#at++]!;
    // Without bits, all values are the first entry, and no runs follow.
    return width === 0 || (width <= 32 && this.#walk(width, this.#bytes.length, 0));
  }

  #skipTruths(): boolean {
    this.#at += 4;
    return this.#walk(1, this.#bytes.length, 0);
  }

  /** @param least - The values that there must be. Empty ones have a level, and no number of an entry. */
  #walk(width: number, end: number, least: number): boolean {
    let seen = 0;
    while (seen < this.#values && this.#at < end) {
      const header = this.#varint(end);
      if (header === undefined) return false;
      const left = this.#values - seen;
      const isPacked = header % 2 === 1;
      const count = isPacked ? ((header - 1) / 2) * 8 : header / 2;
      if (count === 0 && seen < least) return false;
      const bytes = isPacked ? (count / 8) * width : Math.ceil(width / 8);
      // DuckDB fills up a packed run with values that nobody reads. No run may be longer than its bytes.
      const isFilled = isPacked && this.#at + bytes <= end;
      if (!isFilled && count > (isPacked ? Math.ceil(left / 8) * 8 : left)) return false;
      this.#at += bytes;
      seen += count;
    }
    return seen >= least;
  }

  #varint(end: number): number | undefined {
    let value = 0;
    for (let shift = 0; shift < 32 && this.#at < end; shift += 7) {
      const byte = this.#bytes[this.#at++]!;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value < 2 ** 31 ? value : undefined;
    }
    return undefined;
  }
}

/** The bits of a level. */
function bitsOf(most: number): number {
  return 32 - Math.clz32(most);
}

/** The checked fields of a page header. */
interface PageHeader {
  /** Size in bytes, decompressed. */
  readonly field_2?: unknown;
  /** Size in bytes in the file. */
  readonly field_3?: unknown;
  /** A data page: the number of values, and their encoding. */
  readonly field_5?: { readonly field_1?: unknown; readonly field_2?: unknown };
  /** A dictionary: the number of values. */
  readonly field_7?: { readonly field_1?: unknown };
  /** A data page of version 2: the number of values, their encoding, the bytes of both levels, and whether it is compressed. */
  readonly field_8?: {
    readonly field_1?: unknown;
    readonly field_4?: unknown;
    readonly field_5?: unknown;
    readonly field_6?: unknown;
    readonly field_7?: unknown;
  };
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
