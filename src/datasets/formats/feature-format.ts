/** What every format of feature files implements: a writer and a reader. */
import type { FileHandle } from 'node:fs/promises';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { elementBytes, elementCount, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';

/** Consecutive rows of a feature, to be written. */
export interface FeatureRows {
  /** `[rows, ...dims]`. The caller may change it after `append` has settled. */
  readonly tensor: Tensor;
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  /** The path of each row's input; null for an input given as bytes. */
  readonly paths: readonly (string | null)[];
}

/** How a format writes rows to a file. Both methods may throw `OUTPUT_UNWRITABLE`. */
export interface FeatureEncoder {
  /** Writes rows, or keeps a few megabytes of them (at least one row) until there are enough to write. */
  append(rows: FeatureRows): Promise<void>;
  /** Writes what is left, now that the number of rows is known. */
  end(rows: number): Promise<void>;
}

/** A feature file to read, and what the manifest says about it. */
export interface FeatureFile extends FeatureColumn {
  readonly path: string;
  readonly rows: number;
  /** The number of its first row, over all shards. */
  readonly firstRow: number;
  /** The largest number of rows to hold at once, if the format lets the reader choose. */
  readonly rowsPerBlock: number;
}

/** Consecutive rows as their file holds them: one after the other, little-endian. */
export interface StoredRows {
  /** In bytes. */
  readonly offset: number;
  readonly rows: number;
  /** The type of the numbers in the file: another one than that of the feature, where the format has no such type. */
  readonly dtype: DType;
}

const BLOCK_BYTES = 16 * 2 ** 20;

/** Describes a file of rows as they were written. */
export function featureFile(
  column: Omit<FeatureColumn, 'elements'>,
  place: Pick<FeatureFile, 'path' | 'rows' | 'firstRow'>,
): FeatureFile {
  const elements = elementCount(column.dims);
  const rowBytes = Math.max(1, elements * elementBytes(column.dtype));
  return { ...column, ...place, elements, rowsPerBlock: Math.max(1, Math.floor(BLOCK_BYTES / rowBytes)) };
}

/** What formats with key-value metadata note about their rows, which they store flattened. */
export function factsOf({ key, dtype, dims }: FeatureColumn): Readonly<Record<string, string>> {
  return { 'tapir.key': key, 'tapir.dtype': dtype, 'tapir.shape': JSON.stringify(dims) };
}

/** Compares the notes of {@link factsOf} in a file with the manifest. Throws `DATASET_INVALID`. */
export function checkFacts(
  { path, dtype, dims }: FeatureFile,
  found: ReadonlyMap<string, string | undefined>,
): void {
  const shape = JSON.stringify(dims);
  const [foundType, foundShape] = [found.get('tapir.dtype'), found.get('tapir.shape')];
  if (foundType === dtype && foundShape === shape) return;
  const what =
    foundType === undefined ? 'onnx-tapir did not write it' : `it holds ${foundType} ${foundShape}`;
  throw datasetInvalid(path, `${what}, the manifest says ${dtype} ${shape}`);
}

/** Reads a range of a file. Throws `DATASET_INVALID` if the file ends too early. */
export async function readExactly(
  handle: FileHandle,
  offset: number,
  length: number,
  path: string,
): Promise<Buffer<ArrayBuffer>> {
  // Not zeroed: only bytes that were read are returned.
  const bytes = Buffer.allocUnsafeSlow(length);
  await readInto(handle, offset, bytes, path);
  return bytes;
}

/** Fills bytes from a file. Throws as {@link readExactly} does. */
export async function readInto(
  handle: FileHandle,
  offset: number,
  bytes: Uint8Array,
  path: string,
): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, offset + done);
    if (bytesRead === 0) throw datasetInvalid(path, `it ends at byte ${offset + done}, too early`);
    done += bytesRead;
  }
}
