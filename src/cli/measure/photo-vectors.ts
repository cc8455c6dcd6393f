/** Vectors by the name of their photo: NumPy's `.npz`, or a dataset. */
import { extname } from 'node:path';
import { reasonOf } from '../../base/errors.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { SharedFile } from '../../base/files/shared-file.js';
import { listZipEntries, readZipEntry } from '../../base/files/zip-file.js';
import { parseNpy } from '../../datasets/formats/npy.js';
import { openDataset } from '../../datasets/files/dataset.js';

const MOST_ENTRIES = 100_000;
const MOST_BYTES = 2 ** 30;

/** An array, in a buffer that it fills. */
interface NamedArray {
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

/** Arrays by the name of a photo. `NAME` or `NAME:OUTPUT` are its vectors, `NAME:pixels` is what the model is fed, `[C, H, W]`. */
export type PhotoVectors = ReadonlyMap<string, NamedArray>;

/**
 * Reads an `.npz` file, by the names that `numpy.savez` was given, or a dataset, whose rows are `NAME:OUTPUT`. Throws `DATASET_INVALID`, also
 * for more than 100,000 arrays or 1 GiB.
 */
export async function readPhotoVectors(path: string): Promise<PhotoVectors> {
  const arrays = extname(path) === '.npz' ? readNpz(path) : readRows(path);
  const read = new Map<string, NamedArray>();
  let bytes = 0;
  for await (const [name, array] of arrays) {
    bytes += array.data.byteLength;
    if (bytes > MOST_BYTES || read.size === MOST_ENTRIES)
      throw datasetInvalid(path, `it has more than ${MOST_ENTRIES} arrays, or more than ${MOST_BYTES} bytes`);
    read.set(name, array);
  }
  return read;
}

type NamedArrays = AsyncGenerator<readonly [name: string, array: NamedArray]>;

async function* readNpz(path: string): NamedArrays {
  const file = new SharedFile(path);
  try {
    await file.acquire();
  } catch (error) {
    throw datasetInvalid(path, reasonOf(error), error);
  }
  try {
    for await (const entry of listZipEntries(file)) {
      if (entry.sizeBytes > MOST_BYTES) throw new Error(`${entry.name} has ${entry.sizeBytes} bytes`);
      yield [entry.name.replace(/\.npy$/, ''), parseNpy(await readZipEntry(file, entry), path)];
    }
  } catch (error) {
    throw datasetUnreadable(path, error);
  } finally {
    await file.release();
  }
}

async function* readRows(folder: string): NamedArrays {
  const dataset = await openDataset(folder);
  const names = new Map<number, string>();
  for await (const { row, path } of dataset.rows()) if (row !== null && path !== null) names.set(row, path);
  for (const key of Object.keys(dataset.manifest.features))
    for await (const { firstRow, rows: count, dims, data } of dataset.blocks(key))
      for (let row = 0; row < count; row++) {
        const [start, end] = [row, row + 1].map((at) => (at * data.length) / count);
        const name = names.get(firstRow + row);
        if (name !== undefined) yield [`${name}:${key}`, { dims, data: data.slice(start, end) }];
      }
}
