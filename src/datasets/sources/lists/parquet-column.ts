/** A column of text in a Parquet file. */
import type { AsyncBuffer, RowGroup } from 'hyparquet';
import { PARQUET_COMPRESSORS } from '../../../base/files/parquet-compressors.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { asInvalidSource, invalidSource, missingColumn } from '../items/source-errors.js';
import { checkPages } from './parquet-pages.js';

/** The most bytes that are read at once: the index of the file, or a column of a row group. */
const MAX_RANGE_BYTES = 256 * 1024 ** 2;
/** The most rows of a row group. */
const MAX_GROUP_ROWS = 2 ** 26;

/**
 * Reads the values of a column of text, row group by row group.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`, naming the row.
 */
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
      compressors: PARQUET_COMPRESSORS,
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
