/** A dataset that `embedFolder` has written, read back with bounded memory. */
import { extname } from 'node:path';
import { checkInteger, checkText, invalidOption, withDefaults } from '../base/checks.js';
import type { FileStamp } from '../base/file-stamp.js';
import { elementCount } from '../tensor/tensor.js';
import type { Manifest } from './manifest.js';
import { readArrowRows } from './formats/read-arrow.js';
import { locate } from './formats/dataset-file.js';
import { datasetInvalid } from './formats/dataset-invalid.js';
import { cutBlocks, type FeatureFile, type FeatureReader } from './formats/feature-file.js';
import { readJsonlRows } from './formats/read-jsonl.js';
import { readMetadata } from './formats/read-metadata.js';
import { readNpyRows } from './formats/read-npy.js';
import { readParquetRows } from './formats/read-parquet.js';
import { readManifest } from './read-manifest.js';

/** What became of an input. */
export interface DatasetRow {
  /** As listed when it was embedded; null for inputs given as bytes. */
  readonly path: string | null;
  readonly status: 'ok' | 'error';
  /** Its row in the features, over all shards; null for an error. */
  readonly row: number | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  /** Size of the image in pixels, where it could be read. */
  readonly width: number | null;
  readonly height: number | null;
  /** Of its file as it was read; null where nothing is known of it. */
  readonly stamp: FileStamp | null;
}

/** Consecutive rows of a feature. */
export interface FeatureBlock {
  /** Row number of the first one, over all shards. */
  readonly firstRow: number;
  readonly rows: number;
  /** Dims of one row. */
  readonly dims: readonly number[];
  /** `rows × product(dims)` elements in C order; the caller's own. */
  readonly data: Float32Array;
}

/** A finished dataset. It holds no file open. */
export interface Dataset {
  readonly folder: string;
  readonly manifest: Manifest;
  /**
   * What became of each input, in the order of the metadata. The `row` of an input is the truth: rows of features that no input
   * names are dead (an older outcome).
   */
  rows(): AsyncIterable<DatasetRow>;
  /**
   * A feature's rows in order, over all shards; a block lies within a shard. float16 is widened, bool becomes 0 and 1; integers
   * beyond 2^24 (int32, int64, …) and float64 are rounded to the nearest float32; null in `.jsonl` is NaN.
   *
   * @param options - `rowsPerBlock`: most rows of a block, an integer from 1; by default what 16 MiB hold.
   * @throws {@link TapirError} `OPTION_INVALID` for a key that the dataset does not have; `DATASET_INVALID` for a file that is
   * missing, damaged, or not what the manifest says.
   */
  blocks(key: string, options?: BlockOptions): AsyncIterable<FeatureBlock>;
}

interface BlockOptions {
  readonly rowsPerBlock?: number | undefined;
}

const BLOCK_BYTES = 16 * 2 ** 20;
const MAX_ROWS_PER_BLOCK = 2 ** 24;

/** By the ending of the file. */
const READERS: Readonly<Record<string, FeatureReader>> = {
  '.npy': readNpyRows,
  '.arrow': readArrowRows,
  '.parquet': readParquetRows,
  '.jsonl': readJsonlRows,
};

/**
 * Opens a dataset: reads its manifest and checks it; the other files are read, and checked, when they are asked for.
 *
 * @param folder - Folder that {@link embedFolder} or `tapir embed` has written.
 * @throws {@link TapirError} `DATASET_INVALID` if there is no manifest (not a dataset, or unfinished), it is damaged, or it names a path outside the folder.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 *
 * const dataset = await openDataset('vectors');
 * for await (const { firstRow, rows, data } of dataset.blocks('embedding')) {
 *   console.log(firstRow, rows, data.length); // 0 2048 4194304
 * }
 * ```
 */
export async function openDataset(folder: string): Promise<Dataset> {
  const manifest = await readManifest(checkText('folder', folder));
  return {
    folder,
    manifest,
    rows: () => rowsOf(folder, manifest),
    blocks: (key, options = {}) => blocksOf(folder, manifest, key, checkOptions(manifest, key, options)),
  };
}

/** Returns rows per block. */
function checkOptions(manifest: Manifest, key: string, options: BlockOptions): number {
  if (!Object.hasOwn(manifest.features, key)) {
    const keys = Object.keys(manifest.features).map((name) => JSON.stringify(name));
    throw invalidOption('key', `a feature of the dataset (${keys.join(', ') || 'it has none'})`, key);
  }
  const rowBytes = 4 * Math.max(1, elementCount(manifest.features[key]!.dims));
  const defaults = {
    rowsPerBlock: Math.max(1, Math.min(MAX_ROWS_PER_BLOCK, Math.floor(BLOCK_BYTES / rowBytes))),
  };
  const { rowsPerBlock } = withDefaults(defaults, options, 'blocks');
  return checkInteger('rowsPerBlock', rowsPerBlock, 1, MAX_ROWS_PER_BLOCK);
}

async function* rowsOf(folder: string, manifest: Manifest): AsyncGenerator<DatasetRow> {
  const last = manifest.shards.at(-1);
  const totalRows = last === undefined ? 0 : last.firstRow + last.rows;
  for (const { metadata } of manifest.shards) yield* readMetadata(await locate(folder, metadata), totalRows);
}

async function* blocksOf(
  folder: string,
  manifest: Manifest,
  key: string,
  rowsPerBlock: number,
): AsyncGenerator<FeatureBlock> {
  const { dtype, dims } = manifest.features[key]!;
  for (const { features, rows, firstRow } of manifest.shards) {
    if (rows === 0) continue;
    // The manifest was checked: a shard with rows has a file of each feature.
    const path = await locate(folder, features[key]!);
    const read = READERS[extname(path)];
    if (!read) throw datasetInvalid(path, `its ending is none of ${Object.keys(READERS).join(', ')}`);
    const file: FeatureFile = {
      path,
      key,
      dtype,
      dims,
      elements: elementCount(dims),
      rows,
      firstRow,
      rowsPerBlock,
    };
    for await (const block of cutBlocks(file, read(file))) yield { ...block, dims };
  }
}
