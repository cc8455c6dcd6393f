/** Reading a dataset that `embedFolder` wrote, in bounded memory. */
import { checkInteger, checkText, invalidOption, withDefaults } from '../../base/checks.js';
import { elementCount } from '../../tensor/tensor.js';
import { readFeatureRows } from '../formats/feature-files.js';
import type { FeatureFile } from '../formats/feature-format.js';
import { readMetadata, type DatasetRow, type MetadataRow } from '../formats/metadata.js';
import { locateFile } from '../records/locate-file.js';
import { rowsOf, type Manifest } from './manifest.js';
import { readManifest } from './read-manifest.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';

/** Consecutive rows of a feature. */
export interface FeatureBlock {
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  readonly rows: number;
  /** The dims of one row. */
  readonly dims: readonly number[];
  /** `rows × product(dims)` elements in C order. The caller may change them. */
  readonly data: Float32Array;
}

/** A finished dataset. It keeps no file open. */
export interface Dataset {
  readonly folder: string;
  readonly manifest: Manifest;
  /**
   * The inputs and their outcomes, in the order of the metadata, without those that `removeMissing` removed. Find features by the `row` of an input: feature rows that no input
   * names belong to older outcomes.
   */
  rows(): AsyncIterable<DatasetRow>;
  /**
   * The rows of a feature in order, over all shards. A block lies within one shard. float16 is widened, bool becomes 0 and 1.
   * float64 and integers beyond 2^24 (int32, int64, …) are rounded to the nearest float32.
   *
   * @param options - `rowsPerBlock`: the largest number of rows in a block, an integer from 1; by default as many as fit in 16 MiB.
   * @throws {@link TapirError} `OPTION_INVALID` for a key that the dataset does not have; `DATASET_INVALID` for a file that is
   * missing, damaged, or differs from the manifest.
   */
  blocks(key: string, options?: BlockOptions): AsyncIterable<FeatureBlock>;
}

export interface BlockOptions {
  readonly rowsPerBlock?: number | undefined;
}

const BLOCK_BYTES = 16 * 2 ** 20;
const MAX_ROWS_PER_BLOCK = 2 ** 24;

/**
 * Opens a dataset: reads and checks its manifest. The other files are read and checked when you ask for them.
 *
 * @param folder - The folder that {@link embedFolder} or `tapir embed` wrote.
 * @throws {@link TapirError} `DATASET_INVALID` if there is no manifest (the folder is not a dataset, or an unfinished one), or if the
 * manifest is damaged or names a path outside the folder.
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
    rows: () => inputsOf(folder, manifest),
    blocks: (key, options = {}) => blocksOf(folder, manifest, key, checkOptions(manifest, key, options)),
  };
}

/** Returns the number of rows per block. */
function checkOptions(manifest: Manifest, key: string, options: BlockOptions): number {
  if (typeof key !== 'string' || !Object.hasOwn(manifest.features, key)) {
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

async function* inputsOf(folder: string, manifest: Manifest): AsyncGenerator<DatasetRow> {
  const totalRows = rowsOf(manifest);
  for (const { metadata } of manifest.shards)
    for await (const row of readMetadata(await locateFile(folder, metadata), totalRows))
      if (isInput(row)) yield row;
}

function isInput(row: MetadataRow): row is DatasetRow {
  return row.status !== 'removed';
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
    // readManifest checked that a shard with rows has a file for each feature.
    const path = await locateFile(folder, features[key]!);
    const elements = elementCount(dims);
    const file: FeatureFile = { path, key, dtype, dims, elements, rows, firstRow, rowsPerBlock };
    for await (const block of cutBlocks(file, readFeatureRows(file))) yield { ...block, dims };
  }
}

/**
 * Cuts pieces of whole rows into blocks of `rowsPerBlock` rows; the last block has the rest.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if the pieces hold more or fewer rows than the manifest says.
 */
export async function* cutBlocks(
  file: FeatureFile,
  pieces: AsyncIterable<Float32Array>,
): AsyncGenerator<Omit<FeatureBlock, 'dims'>> {
  const { elements, rowsPerBlock } = file;
  let block: Float32Array | undefined;
  let filled = 0;
  let done = 0;
  for await (const piece of pieces) {
    if (piece.length > (file.rows - done) * elements - filled) throw miscounted(file, 'more');
    for (let at = 0; at < piece.length;) {
      const room = Math.min(rowsPerBlock, file.rows - done) * elements;
      // A piece of exactly one block is not copied. For .npy, this is the usual case.
      const isWhole = filled === 0 && at === 0 && piece.length === room;
      if (isWhole) block = piece;
      block ??= new Float32Array(room);
      const taken = Math.min(room - filled, piece.length - at);
      if (!isWhole) block.set(piece.subarray(at, at + taken), filled);
      at += taken;
      filled += taken;
      if (filled === room) {
        const rows = room / elements;
        yield { firstRow: file.firstRow + done, rows, data: block };
        done += rows;
        block = undefined;
        filled = 0;
      }
    }
  }
  if (elements === 0) yield { firstRow: file.firstRow, rows: file.rows, data: new Float32Array() };
  else if (done < file.rows) throw miscounted(file, 'fewer');
}

function miscounted(file: FeatureFile, which: 'more' | 'fewer'): Error {
  return datasetInvalid(file.path, `it holds ${which} rows than the manifest says (${file.rows})`);
}
