/** A column of text in a Parquet file. */
import type { AsyncBuffer, RowGroup } from 'hyparquet';
import { PARQUET_READING } from '../../../base/files/parquet-reading.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { asInvalidSource, invalidSource, missingColumn } from '../items/source-errors.js';

/** The most bytes that are read at once: the index of the file, or a column of a row group. */
const MAX_RANGE_BYTES = 256 * 1024 ** 2;
/** The most rows of a row group. */
const MAX_GROUP_ROWS = 2 ** 26;

/** Reads the values of a column of text, row group by row group. Throws `SOURCE_INVALID`, naming the row. */
export async function* readParquetColumn(source: string, column: string): AsyncGenerator<string> {
  const file = new SharedFile(source);
  const handle = await file.acquire();
  try {
    const { size } = await handle.stat();
    yield* valuesOf(source, bufferOf(file, size), column);
  } catch (error) {
    throw asInvalidSource(source, error);
  } finally {
    await file.release();
  }
}

async function* valuesOf(source: string, file: AsyncBuffer, column: string): AsyncGenerator<string> {
  const { parquetMetadataAsync, parquetRead, parquetSchema } = await import('hyparquet');
  const metadata = await parquetMetadataAsync(file);
  const names = parquetSchema(metadata).children.map(({ element }) => element.name);
  if (!names.includes(column)) throw missingColumn(source, column, names);
  let row = 0;
  for (const group of metadata.row_groups) {
    const parts: ArrayLike<unknown>[] = [];
    // Read in chunks, not as rows: the file may state a wrong number of rows.
    await parquetRead({
      file: await readChunk(file, group, column),
      metadata: { ...metadata, row_groups: [group] },
      columns: [column],
      compressors: PARQUET_READING.compressors,
      parsers: { stringFromBytes: (bytes) => textOf(bytes, column) },
      onChunk: ({ columnData }) => parts.push(columnData),
    });
    const read = parts.reduce((sum, { length }) => sum + length, 0);
    if (read !== Number(group.num_rows))
      throw new Error(`its column "${column}" has ${read} values in a group of ${group.num_rows} rows`);
    for (const part of parts) {
      for (let i = 0; i < part.length; i++) {
        const value = part[i];
        row++;
        if (typeof value !== 'string' || value === '')
          throw invalidSource(source, `row ${row} has no text in the column "${column}"`);
        yield value;
      }
    }
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A column may hold the photos themselves: bytes must not become names. */
function textOf(bytes: Uint8Array | undefined, column: string): string | undefined {
  try {
    return bytes && decoder.decode(bytes);
  } catch (cause) {
    const reason = `its column "${column}" holds bytes that are no text in UTF-8; photos in a column are read from an Arrow stream (--input-format arrow)`;
    throw new Error(reason, { cause });
  }
}

/** Reads and checks the part of the file that a column of a row group needs. Returns it in the place of the file. */
async function readChunk(
  file: AsyncBuffer,
  { columns, num_rows }: RowGroup,
  column: string,
): Promise<AsyncBuffer> {
  const [chunk, ...others] = columns.flatMap(({ meta_data: chunk }) =>
    chunk?.path_in_schema[0] === column ? [chunk] : [],
  );
  if (!chunk || others.length > 0 || chunk.path_in_schema.length > 1)
    throw new Error(`its column "${column}" is nested or repeated; it must be plain text`);
  if (num_rows > MAX_GROUP_ROWS) throw new Error(`a group has ${num_rows} rows, more than ${MAX_GROUP_ROWS}`);
  const first = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
  const bytes = await file.slice(first, first + Number(chunk.total_compressed_size));
  await checkPages(bytes, Number(num_rows));
  return {
    byteLength: file.byteLength,
    slice: (start, end = file.byteLength) => bytes.slice(start - first, end - first),
  };
}

function bufferOf(file: SharedFile, byteLength: number): AsyncBuffer {
  return {
    byteLength,
    async slice(start, end = byteLength) {
      const length = end - start;
      if (!(start >= 0 && length >= 0 && end <= byteLength))
        throw new Error(`it refers to bytes ${start} to ${end} of ${byteLength}`);
      if (length > MAX_RANGE_BYTES)
        throw new Error(`a part of it has ${length} bytes, more than ${MAX_RANGE_BYTES}`);
      const bytes = await file.read(start, length);
      if (bytes.length < length) throw new Error('it was truncated while it was read');
      return bytes.buffer;
    },
  };
}

/** The most bytes of a page, decompressed. */
const MAX_PAGE_BYTES = 1024 ** 3;

/**
 * Checks that the pages follow each other, that no page is larger than the rest of the column, and that together they do not
 * hold more values than the row group has rows. Otherwise a reader would loop forever, or allocate memory for values that do not
 * exist.
 *
 * @param bytes - A column of a row group.
 * @throws Error that names the damaged page.
 */
export async function checkPages(bytes: ArrayBuffer, rows: number): Promise<void> {
  const { deserializeTCompactProtocol } = await import('hyparquet/src/thrift.js');
  const reader = { view: new DataView(bytes), offset: 0 };
  let values = 0;
  while (reader.offset < bytes.byteLength) {
    const at = reader.offset;
    const header = deserializeTCompactProtocol(reader) as PageHeader;
    const { field_2: unpacked, field_3: packed } = header;
    const dictionary = header.field_7?.field_1;
    const data = (header.field_5 ?? header.field_8)?.field_1;
    // A text in a dictionary takes at least 4 bytes.
    const isRight =
      isCount(unpacked, MAX_PAGE_BYTES) &&
      isCount(packed, bytes.byteLength - reader.offset) &&
      (isCount(dictionary, unpacked / 4) || isCount(data, rows - values));
    if (!isRight) throw new Error(`the page at byte ${at} of a column is damaged`);
    values += data ?? 0;
    reader.offset += packed;
  }
}

/** The checked fields of a page header. */
interface PageHeader {
  /** Size in bytes, decompressed. */
  readonly field_2?: unknown;
  /** Size in bytes in the file. */
  readonly field_3?: unknown;
  /** The number of values: in a data page, and in a data page of version 2. */
  readonly field_5?: { readonly field_1?: number };
  readonly field_8?: { readonly field_1?: number };
  /** The number of values in a dictionary page. */
  readonly field_7?: { readonly field_1?: number };
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
