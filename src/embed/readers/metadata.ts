/** Reads a shard's metadata back. */
import { readFile } from 'node:fs/promises';
import { reasonOf, TapirError, type ImageErrorCode } from '../../errors.js';
import type { MetadataRow } from '../sinks/metadata.js';

/**
 * The rows of a metadata file, in order.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if it is not there, or no Parquet file.
 */
export async function readMetadata(path: string): Promise<MetadataRow[]> {
  try {
    const { parquetReadObjects } = await import('hyparquet');
    const bytes = await readFile(path);
    const { buffer, byteOffset, byteLength } = bytes;
    const file = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
    const rows = (await parquetReadObjects({ file })) as unknown as StoredRow[];
    return rows.map(toRow);
  } catch (error) {
    const reason = reasonOf(error);
    throw new TapirError('DATASET_INVALID', `the metadata "${path}" cannot be read: ${reason}`, {
      details: { path, reason },
      cause: error,
    });
  }
}

interface StoredRow {
  readonly path: string | null;
  readonly row: bigint | null;
  readonly error_code: ImageErrorCode | null;
  readonly error_message: string | null;
  readonly width: number | null;
  readonly height: number | null;
  readonly size_bytes: bigint | null;
  readonly modified: Date | null;
  readonly sha256: string | null;
}

function toRow(stored: StoredRow): MetadataRow {
  const { path, row, width, height, size_bytes: size } = stored;
  return {
    path,
    row: row === null ? null : Number(row),
    errorCode: stored.error_code,
    errorMessage: stored.error_message,
    width,
    height,
    stamp:
      size === null
        ? null
        : {
            sizeBytes: Number(size),
            modifiedMs: stored.modified === null ? null : stored.modified.getTime(),
            sha256: stored.sha256,
          },
  };
}
