/** The rows of a feature where they lie in their files, for those who read them in another order, or map them. */
import { open, realpath } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import { createData, elementBytes, elementCount } from '../../onnx/tensor/tensor.js';
import { bytesOf } from '../../onnx/tensor/bits.js';
import { widenElements, type Elements } from '../../onnx/tensor/widen.js';
import { datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { locateStoredRows, readFeatureRows } from '../formats/feature-files.js';
import { featureFile, readInto, type FeatureFile, type StoredRows } from '../formats/feature-format.js';
import { locateFile } from '../records/locate-file.js';
import { cutBlocks } from './cut-blocks.js';
import type { Manifest } from './manifest.js';

/** Consecutive rows in one file. */
export interface StoredVectors {
  readonly file: FeatureFile;
  /** Relative to the real folder of the dataset, with `/`. */
  readonly location: string;
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  readonly rows: number;
  /** Undefined for rows that are stored as bits: of the whole file. */
  readonly at: StoredRows | undefined;
}

/** Finds the rows of a feature, in order. Throws `DATASET_INVALID`. */
export async function locateVectors(
  { folder, manifest }: { readonly folder: string; readonly manifest: Pick<Manifest, 'features' | 'shards'> },
  key: string,
): Promise<StoredVectors[]> {
  const { dtype, dims } = manifest.features[key]!;
  const root = await realpath(folder).catch((error: unknown) => {
    throw datasetUnreadable(folder, error);
  });
  const located: StoredVectors[] = [];
  for (const { features, rows, firstRow } of manifest.shards) {
    if (rows === 0) continue;
    const path = await locateFile(folder, features[key]!);
    const file = featureFile({ key, dtype, dims }, { path, rows, firstRow });
    const location = relative(root, path).split(sep).join('/');
    let next = firstRow;
    const parts = elementCount(dims) > 0 ? await locateStoredRows(file) : undefined;
    for (const at of parts ?? [undefined]) {
      const own = at?.rows ?? rows;
      located.push({ file, location, firstRow: next, rows: own, at });
      next += own;
    }
  }
  return located;
}

/**
 * Reads some rows of a part as float32.
 *
 * @param wanted - Their numbers over all shards, in order.
 * @returns `wanted.length × elements` numbers.
 */
export async function readVectors(
  { file, firstRow, at }: StoredVectors,
  wanted: ArrayLike<number>,
): Promise<Float32Array> {
  const { elements, path } = file;
  if (!at) return readFromBits(file, wanted);
  const data = createData(at.dtype, wanted.length * elements) as Elements;
  const bytes = bytesOf(data);
  const rowBytes = elements * elementBytes(at.dtype);
  try {
    await using handle = await open(path);
    for (let from = 0; from < wanted.length;) {
      let to = from + 1;
      while (to < wanted.length && wanted[to] === wanted[to - 1]! + 1) to++;
      const offset = at.offset + (wanted[from]! - firstRow) * rowBytes;
      await readInto(handle, offset, bytes.subarray(from * rowBytes, to * rowBytes), path);
      from = to;
    }
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
  return widenElements(at.dtype, data);
}

/** Reads all rows of a part as float32. */
export async function readAllVectors(part: StoredVectors): Promise<Float32Array> {
  const { firstRow, rows } = part;
  return readVectors(
    part,
    Float64Array.from({ length: rows }, (_, i) => firstRow + i),
  );
}

async function readFromBits(file: FeatureFile, wanted: ArrayLike<number>): Promise<Float32Array> {
  const { elements } = file;
  const data = new Float32Array(wanted.length * elements);
  let done = 0;
  for await (const block of cutBlocks(file, readFeatureRows(file)))
    for (; done < wanted.length && wanted[done]! < block.firstRow + block.rows; done++) {
      const from = (wanted[done]! - block.firstRow) * elements;
      data.set(block.data.subarray(from, from + elements), done * elements);
    }
  return data;
}
