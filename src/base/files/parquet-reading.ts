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
