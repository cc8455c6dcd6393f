/** Lists of numbers in Parquet files, page by page: a column of vectors may have gigabytes in a row group. */
import type { ColumnMetaData, DecodedArray, RowGroup, SchemaTree } from 'hyparquet';
import type { readDataPage as readPage } from 'hyparquet/src/datapage.js';
import { COMPRESSORS, checkPages } from './parquet-pages.js';
import {
  countOf,
  findColumn,
  leastBytesOf,
  openParquet,
  type OpenParquet,
  type ParquetReading,
} from './parquet-reading.js';

/** The numbers of a list. */
export type ListType = 'float16' | 'float32' | 'float64';

/** Rows of a column of lists. */
export interface ListBlock {
  readonly type: ListType;
  /** The numbers of all its lists, one after the other. In the place of a number that is missing stands NaN. */
  readonly numbers: Float32Array | Float64Array;
  /** Where the list of each row begins, and at last where they all end. */
  readonly starts: ArrayLike<number>;
  /** Rows without a list. */
  readonly absent: ReadonlySet<number>;
  /** The place of the first missing number in the list of a row. */
  readonly gaps: ReadonlyMap<number, number>;
}

type ColumnDecoder = Parameters<typeof readPage>[2];

/** Bytes in which the header of a page lies; beyond them there are only statistics of pathological size. */
const HEADER_BYTES = 2 ** 16;

/**
 * Reads a column of lists of floating-point numbers, a page at a time.
 *
 * @throws As `readParquetRecords` does, also for a column of anything else.
 */
export async function* readParquetLists(
  path: string,
  column: string,
  missing?: ParquetReading['missing'],
): AsyncGenerator<ListBlock> {
  await using file = await openParquet(path);
  const { steps, type } = findNumbers(findColumn(file, column, missing));
  for (const group of file.metadata.row_groups) {
    const joiner = new ListJoiner(steps, type);
    for await (const page of readPages(file, group, steps)) yield joiner.add(page);
    yield joiner.end();
    if (joiner.count !== countOf(group.num_rows))
      throw new Error(
        `its column "${column}" has ${joiner.count} lists in a group of ${group.num_rows} rows`,
      );
  }
}

/** Finds the numbers below a column: a list has one repeated step, which is its numbers or holds them. */
function findNumbers(tree: SchemaTree): { steps: readonly SchemaTree[]; type: ListType } {
  const steps = [tree];
  for (let [inner] = tree.children; inner; [inner] = inner.children) steps.push(inner);
  const isRepeated = ({ element }: SchemaTree): boolean => element.repetition_type === 'REPEATED';
  const { type: physical, logical_type: logical } = steps.at(-1)!.element;
  const type = logical?.type === 'FLOAT16' ? 'float16' : physical === 'FLOAT' ? 'float32' : 'float64';
  const [depth, before] = [steps.filter(isRepeated).length, steps.findIndex(isRepeated)];
  const isList =
    depth === 1 &&
    before <= 1 &&
    steps.length <= before + 2 &&
    steps.every(({ children }) => children.length <= 1);
  if (isList && (type !== 'float64' || physical === 'DOUBLE')) return { steps, type };
  const found =
    depth > 1
      ? 'lists of lists'
      : isList
        ? `lists of ${physical!}`
        : steps.length > 1
          ? 'structs'
          : 'no lists';
  throw new Error(
    `its column "${tree.element.name}" holds ${found}; it must hold lists of float16, float32 or float64`,
  );
}

/** A list that the next page may continue. */
interface OpenList {
  readonly numbers: ListBlock['numbers'];
  readonly isAbsent: boolean;
  readonly gap: number | undefined;
}

/** Joins the numbers of pages to lists, by their levels. A list may go on in the next page. */
class ListJoiner {
  /** The definition levels of an empty list and of a number. Smaller ones are those of a row without a list. */
  readonly #empty: number;
  readonly #number: number;
  readonly #type: ListType;
  #open: OpenList | undefined;
  /** The number of lists so far. */
  count = 0;

  constructor(steps: readonly SchemaTree[], type: ListType) {
    const repeated = steps.findIndex(({ element }) => element.repetition_type === 'REPEATED');
    this.#empty = steps.slice(0, repeated).filter(isOptional).length;
    this.#number = steps.filter(isOptional).length;
    this.#type = type;
  }

  /** Adds a page. Returns the lists that it completes. */
  add({ repetition, definition, values }: ListPage): ListBlock {
    const before = this.#open;
    const numbers = this.#numbers((before?.numbers.length ?? 0) + repetition.length);
    if (before) numbers.set(before.numbers);
    let filled = before?.numbers.length ?? 0;
    const starts = before ? [0] : [];
    const absent = new Set(before?.isAbsent === true ? [0] : []);
    const gaps = new Map(before?.gap === undefined ? [] : [[0, before.gap]]);
    let mayContinue = before?.isAbsent === false;
    // Usually, all entries are numbers.
    if (!definition) {
      if (!mayContinue && repetition[0] === 1) throw notBegun();
      numbers.set(values as ArrayLike<number>, filled);
      for (let i = repetition.indexOf(0); i >= 0; i = repetition.indexOf(0, i + 1)) starts.push(filled + i);
      filled += repetition.length;
    }
    for (let i = 0, next = 0; definition && i < repetition.length; i++) {
      const level = definition[i]!;
      if (repetition[i] === 0) {
        mayContinue = level >= this.#empty;
        if (!mayContinue) absent.add(starts.length);
        starts.push(filled);
      }
      if (level <= this.#empty) continue;
      if (!mayContinue) throw notBegun();
      if (level === this.#number) numbers[filled] = values[next++] as number;
      else {
        const row = starts.length - 1;
        numbers[filled] = Number.NaN;
        if (!gaps.has(row)) gaps.set(row, filled - starts[row]!);
      }
      filled++;
    }
    const last = starts.length - 1;
    this.#open =
      last < 0
        ? undefined
        : {
            numbers: numbers.slice(starts[last], filled),
            isAbsent: absent.has(last),
            gap: gaps.get(last),
          };
    return this.#block({ numbers, starts: starts.length > 0 ? starts : [0], absent, gaps });
  }

  /** Returns the last list, if there is one. */
  end(): ListBlock {
    const { numbers = this.#numbers(0), isAbsent = false, gap } = this.#open ?? {};
    return this.#block({
      numbers,
      starts: this.#open ? [0, numbers.length] : [0],
      absent: new Set(isAbsent ? [0] : []),
      gaps: new Map(gap === undefined ? [] : [[0, gap]]),
    });
  }

  #block(block: Omit<ListBlock, 'type'>): ListBlock {
    this.count += block.starts.length - 1;
    return { type: this.#type, ...block };
  }

  #numbers(length: number): ListBlock['numbers'] {
    return this.#type === 'float64' ? new Float64Array(length) : new Float32Array(length);
  }
}

function notBegun(): Error {
  return new Error('a page continues a list that has not begun');
}

function isOptional({ element }: SchemaTree): boolean {
  return element.repetition_type !== 'REQUIRED';
}

/** The entries of a page. */
interface ListPage {
  /** 0 where a list begins. */
  readonly repetition: Uint8Array;
  /** Undefined where all entries are numbers. */
  readonly definition: Uint8Array | undefined;
  /** The numbers that are there. */
  readonly values: DecodedArray;
}

/** Reads and checks the pages of a column of a row group. */
async function* readPages(
  file: OpenParquet,
  group: RowGroup,
  steps: readonly SchemaTree[],
): AsyncGenerator<ListPage> {
  const [
    { parquetHeader },
    { decompressPage, readDataPage, readDataPageV2 },
    { convertWithDictionary },
    { readPlain },
  ] = await Promise.all([
    import('hyparquet/src/column.js'),
    import('hyparquet/src/datapage.js'),
    import('hyparquet/src/convert.js'),
    import('hyparquet/src/plain.js'),
  ]);
  const chunk = findChunk(group, steps);
  const { codec, type, path_in_schema: pathInSchema } = chunk;
  const { element } = steps.at(-1)!;
  const most = steps.filter(isOptional).length;
  // The levels are read here, by runs. What is left of a page is a plain column.
  const plain = { ...element, repetition_type: 'REQUIRED' };
  const schemaPath = [{ element: {} }, { element: plain, children: [] }];
  const decoder = {
    pathInSchema,
    element: plain,
    schemaPath,
    type,
    codec,
    compressors: COMPRESSORS,
  } as unknown as ColumnDecoder;
  const leastBytes = type === 'FIXED_LEN_BYTE_ARRAY' ? (element.type_length ?? 1) : leastBytesOf(type);
  const facts = { codec, definition: most, repetition: 1, leastBytes };
  let dictionary: DecodedArray | undefined;
  let at = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
  const end = at + Number(chunk.total_compressed_size);
  while (at < end) {
    const reader = { view: new DataView(await file.slice(at, Math.min(end, at + HEADER_BYTES))), offset: 0 };
    const header = parquetHeader(reader);
    const { dictionary_page_header: entries, data_page_header: first, data_page_header_v2: second } = header;
    if (!(header.compressed_page_size > 0)) throw new Error(`the page at byte ${at} of a column is damaged`);
    const bytes = await file.slice(at, Math.min(end, at + reader.offset + header.compressed_page_size));
    let unpacked: Uint8Array | undefined;
    const count = (first ?? second)?.num_values ?? 0;
    await checkPages(bytes, { ...facts, values: count }, (page) => (unpacked = page));
    at += bytes.byteLength;
    const body = new Uint8Array(bytes, reader.offset);
    const unpack = (): Uint8Array =>
      unpacked ?? decompressPage(body, header.uncompressed_page_size, codec, COMPRESSORS);
    if (entries) {
      const { buffer, byteOffset, byteLength } = unpack();
      const view = new DataView(buffer, byteOffset, byteLength);
      const numbers = readPlain({ view, offset: 0 }, type, entries.num_values, element.type_length);
      dictionary = convertWithDictionary(numbers, undefined, 'PLAIN', decoder);
      continue;
    }
    const page = first ? unpack() : body;
    const levels = readLevels(page, count, most, second);
    const { present } = levels;
    const own = page.subarray(levels.end);
    const { dataPage } = first
      ? readDataPage(own, { ...first, num_values: present }, decoder)
      : readDataPageV2(
          own,
          {
            ...header,
            uncompressed_page_size: header.uncompressed_page_size - levels.end,
            data_page_header_v2: {
              ...second!,
              num_values: present,
              num_nulls: 0,
              repetition_levels_byte_length: 0,
              definition_levels_byte_length: 0,
            },
          },
          decoder,
        );
    yield {
      repetition: levels.repetition,
      definition: present === count ? undefined : levels.definition,
      values: convertWithDictionary(dataPage, dictionary, (first ?? second)!.encoding, decoder),
    };
  }
}

/** The levels of a page, how many entries are numbers, and where these begin. `checkPages` has checked the runs. */
function readLevels(
  page: Uint8Array,
  count: number,
  most: number,
  second: { repetition_levels_byte_length: number; definition_levels_byte_length: number } | undefined,
): Omit<ListPage, 'values'> & { readonly present: number; readonly end: number } {
  let at = 0;
  const next = (bits: number, sized: number | undefined): Levels => {
    const size = sized ?? Buffer.from(page.buffer, page.byteOffset).readUInt32LE(at);
    at += sized === undefined ? 4 : 0;
    const read = readRuns(page.subarray(at, at + size), bits, count, most);
    at += size;
    return read;
  };
  const repetition = next(1, second?.repetition_levels_byte_length).levels;
  if (most === 0) return { repetition, definition: undefined, present: count, end: at };
  const { levels, found } = next(32 - Math.clz32(most), second?.definition_levels_byte_length);
  return { repetition, definition: levels, present: found, end: at };
}

interface Levels {
  readonly levels: Uint8Array;
  /** How many of them are the one that is counted. */
  readonly found: number;
}

/** Levels of at most 8 bits, in runs of equal ones and of packed bits. */
function readRuns(bytes: Uint8Array, bits: number, count: number, counted: number): Levels {
  const levels = new Uint8Array(count);
  let found = 0;
  let at = 0;
  for (let done = 0; done < count;) {
    let header = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0;
      header += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    const isPacked = header % 2 === 1;
    const length = Math.min(count - done, isPacked ? ((header - 1) / 2) * 8 : header / 2);
    if (length === 0) throw new Error('the levels of a page are damaged');
    if (!isPacked) {
      const level = bytes[at++]!;
      levels.fill(level, done, done + length);
      if (level === counted) found += length;
    } else {
      for (let i = 0; i < length; i++) {
        const bit = i * bits;
        const pair = bytes[at + (bit >> 3)]! | ((bytes[at + (bit >> 3) + 1] ?? 0) << 8);
        const level = (pair >> (bit & 7)) & ((1 << bits) - 1);
        levels[done + i] = level;
        if (level === counted) found++;
      }
      at += ((header - 1) / 2) * bits;
    }
    done += length;
  }
  return { levels, found };
}

function findChunk({ columns }: RowGroup, steps: readonly SchemaTree[]): ColumnMetaData {
  const path = steps.map(({ element }) => element.name).join('\0');
  const chunk = columns.find(({ meta_data: one }) => one?.path_in_schema.join('\0') === path)?.meta_data;
  if (chunk) return chunk;
  throw new Error(`a row group lacks its column "${steps[0]!.element.name}"`);
}
