/** What decompresses the pages of Parquet files. The reader itself knows Snappy only. */
import * as zlib from 'node:zlib';
import type { Compressors } from 'hyparquet';

/** Undefined in older versions of Node.js. */
const { zstdDecompressSync } = zlib as { readonly zstdDecompressSync?: typeof zlib.gunzipSync };

/** The decompressors that hyparquet takes, by codec. */
export const PARQUET_COMPRESSORS: Compressors = {
  GZIP: (bytes, maxOutputLength) => zlib.gunzipSync(bytes, { maxOutputLength }),
  BROTLI: (bytes, maxOutputLength) => zlib.brotliDecompressSync(bytes, { maxOutputLength }),
  ZSTD(bytes, maxOutputLength) {
    if (zstdDecompressSync) return zstdDecompressSync(bytes, { maxOutputLength });
    throw new Error(
      'it is compressed with Zstandard, which Node.js reads from version 22.15 on; write it with Snappy or gzip',
    );
  },
};
