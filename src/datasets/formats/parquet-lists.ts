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

/** A list; undefined in the place of a number that is missing. */
export type NumberList = readonly (number | undefined)[];

/** A row of a column of lists. */
export interface ListRow {
  readonly type: ListType;
  /** Null for a row without a list. */
  readonly list: NumberList | null;
}

type DataPage = ReturnType<typeof readPage>;
type ColumnDecoder = Parameters<typeof readPage>[2];

/** Bytes in which the header of a page lies; beyond them there are only statistics of pathological size. */
const HEADER_BYTES = 2 ** 16;

/**
 * Reads a column of lists of floating-point numbers, row by row.
 *
 * @throws As `readParquetRecords` does, also for a column of anything else.
 */
export async function* readParquetLists(
  path: string,
  column: string,
  missing?: ParquetReading['missing'],
): AsyncGenerator<ListRow> {
  await using file = await openParquet(path);
  const { steps, type } = findNumbers(findColumn(file, column, missing));
  for (const group of file.metadata.row_groups) {
    const levels = new ListLevels(steps);
    for await (const { page, values } of readPages(file, group, steps))
      for (const list of levels.add(page, values)) yield { type, list };
    for (const list of levels.end()) yield { type, list };
    if (levels.count !== countOf(group.num_rows))
      throw new Error(
        `its column "${column}" has ${levels.count} lists in a group of ${group.num_rows} rows`,
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

/** Joins the numbers of pages to lists, by their levels. A list may go on in the next page. */
class ListLevels {
  /** The definition levels of an empty list and of a number. Smaller ones are those of a row without a list. */
  readonly #empty: number;
  readonly #number: number;
  #open: (number | undefined)[] | null | undefined;
  /** The number of lists so far. */
  count = 0;

  constructor(steps: readonly SchemaTree[]) {
    const isOptional = ({ element }: SchemaTree): boolean => element.repetition_type !== 'REQUIRED';
    const repeated = steps.findIndex(({ element }) => element.repetition_type === 'REPEATED');
    this.#empty = steps.slice(0, repeated).filter(isOptional).length;
    this.#number = steps.filter(isOptional).length;
  }

  /** Adds a page. Returns the lists that it completes. */
  *add({ definitionLevels, repetitionLevels }: DataPage, values: DecodedArray): Generator<NumberList | null> {
    let next = 0;
    for (let i = 0; i < repetitionLevels.length; i++) {
      // Left out where all entries are numbers.
      const level = definitionLevels?.[i] ?? this.#number;
      if (repetitionLevels[i] === 0) {
        yield* this.end();
        this.#open = level < this.#empty ? null : [];
        this.count++;
      }
      if (level <= this.#empty) continue;
      if (!this.#open) throw new Error('a page continues a list that has not begun');
      this.#open.push(level === this.#number ? (values[next++] as number) : undefined);
    }
  }

  /** Returns the last list, if there is one. */
  *end(): Generator<NumberList | null> {
    if (this.#open !== undefined) yield this.#open;
    this.#open = undefined;
  }
}

/** Reads and checks the pages of a column of a row group. */
async function* readPages(
  file: OpenParquet,
  group: RowGroup,
  steps: readonly SchemaTree[],
): AsyncGenerator<{ readonly page: DataPage; readonly values: DecodedArray }> {
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
  // The root of the schema is a step, too.
  const schemaPath = [{ element: {} }, ...steps] as SchemaTree[];
  const decoder = {
    pathInSchema,
    element,
    schemaPath,
    type,
    codec,
    compressors: COMPRESSORS,
  } as unknown as ColumnDecoder;
  const facts = {
    codec,
    definition: steps.filter((step) => step.element.repetition_type !== 'REQUIRED').length,
    repetition: 1,
    leastBytes: type === 'FIXED_LEN_BYTE_ARRAY' ? (element.type_length ?? 1) : leastBytesOf(type),
  };
  let dictionary: DecodedArray | undefined;
  let at = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
  const end = at + Number(chunk.total_compressed_size);
  while (at < end) {
    const reader = { view: new DataView(await file.slice(at, Math.min(end, at + HEADER_BYTES))), offset: 0 };
    const header = parquetHeader(reader);
    const { dictionary_page_header: entries, data_page_header: first, data_page_header_v2: second } = header;
    if (!(header.compressed_page_size > 0)) throw new Error(`the page at byte ${at} of a column is damaged`);
    const bytes = await file.slice(at, Math.min(end, at + reader.offset + header.compressed_page_size));
    await checkPages(bytes, { ...facts, values: (first ?? second)?.num_values ?? 0 });
    at += bytes.byteLength;
    const body = new Uint8Array(bytes, reader.offset);
    const unpack = (): Uint8Array => decompressPage(body, header.uncompressed_page_size, codec, COMPRESSORS);
    if (entries) {
      const { buffer, byteOffset, byteLength } = unpack();
      const view = new DataView(buffer, byteOffset, byteLength);
      const plain = readPlain({ view, offset: 0 }, type, entries.num_values, element.type_length);
      dictionary = convertWithDictionary(plain, undefined, 'PLAIN', decoder);
    } else {
      const page = first ? readDataPage(unpack(), first, decoder) : readDataPageV2(body, header, decoder);
      const { encoding } = (first ?? second)!;
      yield { page, values: convertWithDictionary(page.dataPage, dictionary, encoding, decoder) };
    }
  }
}

function findChunk({ columns }: RowGroup, steps: readonly SchemaTree[]): ColumnMetaData {
  const path = steps.map(({ element }) => element.name).join('\0');
  const chunk = columns.find(({ meta_data: one }) => one?.path_in_schema.join('\0') === path)?.meta_data;
  if (chunk) return chunk;
  throw new Error(`a row group lacks its column "${steps[0]!.element.name}"`);
}
