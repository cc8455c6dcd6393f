/** Parquet files by columns, and row by row. Every read of one goes through here: what the file says is checked first. */
import type { AsyncBuffer, FileMetaData, ParquetParsers, RowGroup, SchemaTree } from 'hyparquet';
import { checkPages, COMPRESSORS } from './parquet-pages.js';
import { SharedFile } from '../../base/files/shared-file.js';

/** The most bytes that are read at once: the index of the file, or a column of a row group. */
const MAX_RANGE_BYTES = 2 ** 28;
/** The most values of a column in a row group. */
const MAX_GROUP_VALUES = 2 ** 26;

/**
 * Decodes short texts several times faster than a TextDecoder; U+FFFD stands for what is no UTF-8. The reader itself drops U+FEFF at the
 * beginning of a text, but a name may begin with it.
 */
function textParsers(): Partial<ParquetParsers> {
  let page = Buffer.alloc(0);
  return {
    stringFromBytes(bytes) {
      if (!bytes) return bytes;
      const { buffer, byteOffset, byteLength } = bytes;
      if (page.buffer !== buffer) page = Buffer.from(buffer as ArrayBuffer);
      return page.toString('utf8', byteOffset, byteOffset + byteLength);
    },
  };
}

/** A column of lists or structs, where plain values are needed. */
export class NestedColumn extends Error {
  constructor(name: string) {
    super(`its column "${name}" is nested or repeated; its values must be plain`);
  }
}

/** What the values of a column are; `other` for lists, structs and bytes. */
export type ParquetType = 'bool' | 'integer' | 'float' | 'text' | 'json' | 'time' | 'other';

/** A column of a file. */
export interface ParquetColumn {
  readonly name: string;
  readonly type: ParquetType;
  /** The names of the members of a struct; empty for all other columns. */
  readonly members: readonly string[];
  /** Whether the file says that it has no value. */
  readonly isEmpty: boolean;
}

/** How columns are read. */
export interface ParquetReading {
  /** Makes the error for a column that the file lacks. */
  readonly missing?: (column: string, names: readonly string[]) => Error;
  /** Further columns, which the file may lack: then the records do not have them. */
  readonly optional?: readonly string[];
  /** Chooses columns to read beside those that are asked for. */
  readonly others?: (columns: readonly ParquetColumn[]) => readonly string[];
  /** Makes text of the bytes of the columns that are asked for; by default, what is no UTF-8 becomes U+FFFD. */
  readonly stringFromBytes?: ParquetParsers['stringFromBytes'];
  /**
   * Whether a column that is asked for may be a struct of plain values: its values are objects, or null.
   * @default false
   */
  readonly structs?: boolean;
}

/** A row group. */
export interface ParquetGroup {
  readonly rows: number;
  /** The values of each column that was asked for, by its name. Empty values are null or undefined. */
  readonly columns: ReadonlyMap<string, ArrayLike<unknown>>;
}

/**
 * Reads columns of plain values, a row group at a time.
 *
 * @throws Error whose message is the reason, for a file that is damaged or no Parquet.
 */
export async function* readParquetColumns(
  path: string,
  columns: readonly string[],
  reading: ParquetReading = {},
): AsyncGenerator<ParquetGroup> {
  await using file = await openParquet(path);
  const { metadata } = file;
  const there = new Set(describeColumns(file).map(({ name }) => name));
  const optional = (reading.optional ?? []).filter((column) => there.has(column));
  const asked = [...columns, ...optional].map((column) => findColumn(file, column, reading.missing));
  const others = (reading.others?.(describeColumns(file)) ?? []).map((column) => findColumn(file, column));
  for (const group of metadata.row_groups) {
    const rows = countOf(group.num_rows);
    const values = new Map<string, ArrayLike<unknown>>();
    for (const tree of asked) values.set(nameOf(tree), await readGroup(file, group, tree, reading));
    for (const tree of others) values.set(nameOf(tree), await readGroup(file, group, tree));
    yield { rows, columns: values };
  }
}

/** Reads the same row by row. Throws as {@link readParquetColumns} does. */
export async function* readParquetRecords(
  path: string,
  names: readonly string[],
  reading: ParquetReading = {},
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  for await (const { rows, columns } of readParquetColumns(path, names, reading))
    for (let row = 0; row < rows; row++) {
      // A column may have any name.
      const record = Object.create(null) as Record<string, unknown>;
      for (const [column, values] of columns) record[column] = values[row];
      yield record;
    }
}

/** Reads the index of a Parquet file. Throws as {@link readParquetRecords} does. */
export async function readParquetIndex(path: string): Promise<FileMetaData> {
  await using file = await openParquet(path);
  return file.metadata;
}

/** Lists the columns of a Parquet file, and counts its rows. Throws as {@link readParquetRecords} does. */
export async function describeParquet(
  path: string,
): Promise<{ readonly columns: readonly ParquetColumn[]; readonly rows: number }> {
  await using file = await openParquet(path);
  return { columns: describeColumns(file), rows: Number(file.metadata.num_rows) };
}

/** A file that stays open, and what its index says. */
export interface OpenParquet extends AsyncBuffer, AsyncDisposable {
  readonly metadata: FileMetaData;
  /** By name. */
  readonly columns: ReadonlyMap<string, SchemaTree>;
}

/** Opens a file and reads its index. What is read later is of the same file. Throws as {@link readParquetRecords} does. */
export async function openParquet(path: string): Promise<OpenParquet> {
  const file = new SharedFile(path);
  await file.acquire();
  try {
    const buffer = await bufferOf(file);
    const { parquetMetadataAsync, parquetSchema } = await import('hyparquet');
    const metadata = await parquetMetadataAsync(buffer);
    const columns = new Map(parquetSchema(metadata).children.map((tree) => [nameOf(tree), tree]));
    return { ...buffer, metadata, columns, [Symbol.asyncDispose]: () => file.release() };
  } catch (error) {
    await file.release();
    throw error;
  }
}

/** Finds a column. Throws the error that `missing` makes. */
export function findColumn(
  { columns }: OpenParquet,
  column: string,
  missing?: ParquetReading['missing'],
): SchemaTree {
  const tree = columns.get(column);
  if (tree) return tree;
  throw missing?.(column, [...columns.keys()]) ?? new Error(`it has no column "${column}"`);
}

function nameOf({ element }: SchemaTree): string {
  return element.name;
}

function describeColumns({ metadata, columns }: OpenParquet): ParquetColumn[] {
  return [...columns].map(([name, tree]) => ({
    name,
    type: typeOf(tree),
    members: isRepeated(tree) ? [] : tree.children.map(nameOf),
    isEmpty: metadata.row_groups.every(({ columns: chunks, num_rows: rows }) =>
      chunks.some(
        ({ meta_data: chunk }) => chunk?.path_in_schema[0] === name && chunk.statistics?.null_count === rows,
      ),
    ),
  }));
}

/** Whether a column holds lists or maps, however deep. */
function isRepeated({ children, element }: SchemaTree): boolean {
  return element.repetition_type === 'REPEATED' || children.some(isRepeated);
}

function typeOf({ children, element }: SchemaTree): ParquetType {
  const { type, repetition_type: repetition, converted_type: converted, logical_type: logical } = element;
  const annotation = logical?.type ?? converted;
  if (children.length > 0 || repetition === 'REPEATED') return 'other';
  if (/^(?:DATE|TIME)/.test(annotation ?? '') || type === 'INT96') return 'time';
  if (annotation === 'JSON') return 'json';
  if (type === 'BOOLEAN') return 'bool';
  if (annotation === 'DECIMAL' || annotation === 'FLOAT16' || type === 'FLOAT' || type === 'DOUBLE')
    return 'float';
  if (type === 'INT32' || type === 'INT64') return 'integer';
  // Bytes that no annotation says to be text may be anything.
  return ['UTF8', 'STRING', 'ENUM', 'UUID'].includes(annotation ?? '') ? 'text' : 'other';
}

/** The values of a column in a row group. */
async function readGroup(
  file: OpenParquet,
  group: RowGroup,
  tree: SchemaTree,
  { stringFromBytes, structs = false }: ParquetReading = {},
): Promise<ArrayLike<unknown>> {
  const { parquetRead } = await import('hyparquet');
  const name = nameOf(tree);
  const chunks: ArrayLike<unknown>[] = [];
  // Read in chunks, not as rows: the file may state a wrong number of rows.
  await parquetRead({
    file: await readChunk(file, group, tree, structs),
    metadata: { ...file.metadata, row_groups: [group] },
    columns: [name],
    compressors: COMPRESSORS,
    parsers: stringFromBytes ? { stringFromBytes } : textParsers(),
    onChunk: ({ columnData }) => void chunks.push(columnData),
  });
  // Usually one page has all values.
  const values = chunks.length === 1 ? chunks[0]! : chunks.flatMap((chunk) => Array.from(chunk));
  if (values.length !== countOf(group.num_rows))
    throw new Error(`its column "${name}" has ${values.length} values in a group of ${group.num_rows} rows`);
  return values;
}

/** Reads and checks the part of the file that a column of a row group needs. Returns it in the place of the file. */
async function readChunk(
  file: AsyncBuffer,
  group: RowGroup,
  tree: SchemaTree,
  structs: boolean,
): Promise<AsyncBuffer> {
  const name = nameOf(tree);
  const isStruct = structs && tree.children.length > 0;
  const leaves = isStruct ? tree.children : [tree];
  const chunks = group.columns.flatMap(({ meta_data: chunk }) =>
    chunk?.path_in_schema[0] === name ? [chunk] : [],
  );
  const arePlain = leaves.every(({ children }, i) => {
    const path = chunks[i]?.path_in_schema;
    return children.length === 0 && path?.length === (isStruct ? 2 : 1) && path.at(-1) === nameOf(leaves[i]!);
  });
  if (!arePlain || chunks.length !== leaves.length || isRepeated(tree)) throw new NestedColumn(name);
  const values = countOf(group.num_rows);
  const ranges = chunks.map((chunk) => {
    const from = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
    return { from, to: from + Number(chunk.total_compressed_size) };
  });
  // The members of a struct lie side by side.
  const first = Math.min(...ranges.map(({ from }) => from));
  const bytes = await file.slice(first, Math.max(...ranges.map(({ to }) => to)));
  for (const [i, { codec, type }] of chunks.entries()) {
    const levels = isStruct ? [tree, leaves[i]!] : [tree];
    const definition = levels.filter(({ element }) => element.repetition_type !== 'REQUIRED').length;
    const facts = { codec, values, definition, repetition: 0, leastBytes: leastBytesOf(type) };
    const { from, to } = ranges[i]!;
    const own = to - from === bytes.byteLength ? bytes : bytes.slice(from - first, to - first);
    // oxlint-disable-next-line no-await-in-loop -- the members of a struct are few
    await checkPages(own, facts);
  }
  return {
    byteLength: file.byteLength,
    slice: (start, end = file.byteLength) => bytes.slice(start - first, end - first),
  };
}

/** The least bytes of a value of a type in a dictionary. */
export function leastBytesOf(type: string): number {
  return type === 'FIXED_LEN_BYTE_ARRAY' ? 1 : 4;
}

/** Returns a number of rows. Throws for one that no file of ours or others has. */
export function countOf(rows: bigint): number {
  const count = Number(rows);
  if (count >= 0 && count <= MAX_GROUP_VALUES) return count;
  throw new Error(`a group has ${count} rows; there may be ${MAX_GROUP_VALUES}`);
}

async function bufferOf(file: SharedFile): Promise<AsyncBuffer> {
  const { size } = await file.hold((handle) => handle.stat());
  return {
    byteLength: size,
    async slice(start, end = size) {
      const length = end - start;
      if (!(start >= 0 && length >= 0 && end <= size))
        throw new Error(`it refers to bytes ${start} to ${end} of ${size}`);
      if (length > MAX_RANGE_BYTES)
        throw new Error(
          `a part of it has ${length} bytes, more than ${MAX_RANGE_BYTES}; write it with smaller row groups`,
        );
      const bytes = await file.read(start, length);
      if (bytes.length < length) throw new Error('it was truncated while it was read');
      return bytes.buffer;
    },
  };
}
