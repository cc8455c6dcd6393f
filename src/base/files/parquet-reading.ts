/** How Parquet files are read: what decompresses their pages, and how bytes become text. */
import * as zlib from 'node:zlib';
import type { Compressors, ParquetParsers } from 'hyparquet';

/** Undefined in older versions of Node.js. */
const { zstdDecompressSync } = zlib as { readonly zstdDecompressSync?: typeof zlib.gunzipSync };

/** The reader itself knows Snappy only. */
const compressors: Compressors = {
  GZIP: (bytes, maxOutputLength) => zlib.gunzipSync(bytes, { maxOutputLength }),
  BROTLI: (bytes, maxOutputLength) => zlib.brotliDecompressSync(bytes, { maxOutputLength }),
  ZSTD(bytes, maxOutputLength) {
    if (zstdDecompressSync) return zstdDecompressSync(bytes, { maxOutputLength });
    throw new Error(
      'it is compressed with Zstandard, which Node.js reads from version 22.15 on; write it with Snappy or gzip',
    );
  },
};

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
/** The reader itself drops U+FEFF at the beginning of a text, but a name may begin with it. */
const parsers: Partial<ParquetParsers> = { stringFromBytes: (bytes) => bytes && decoder.decode(bytes) };

/** Options of hyparquet. */
export const PARQUET_READING: {
  readonly compressors: Compressors;
  readonly parsers: Partial<ParquetParsers>;
} = { compressors, parsers };

/** The number of rows that are read at once. */
const ROWS_AT_ONCE = 16_384;

/**
 * Reads columns of a file, row by row.
 *
 * @param missing - Makes the error for a column that the file lacks; without it, the error is hyparquet's.
 */
export async function* readParquetRecords(
  path: string,
  columns: readonly string[],
  missing?: (column: string, names: readonly string[]) => Error,
): AsyncGenerator<Readonly<Record<string, unknown>>> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } =
    await import('hyparquet');
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  if (missing) {
    const names = parquetSchema(metadata).children.map(({ element }) => element.name);
    const absent = columns.find((column) => !names.includes(column));
    if (absent !== undefined) throw missing(absent, names);
  }
  const count = Number(metadata.num_rows);
  for (let rowStart = 0; rowStart < count; rowStart += ROWS_AT_ONCE) {
    const rowEnd = Math.min(count, rowStart + ROWS_AT_ONCE);
    const range = { file, metadata, columns: [...columns], rowStart, rowEnd };
    yield* await parquetReadObjects({ ...range, ...PARQUET_READING });
  }
}
