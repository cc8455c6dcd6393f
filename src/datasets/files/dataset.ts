/** Reading a dataset that `embedFolder` wrote, in bounded memory. */
import { checkInteger, checkText, invalidOption, withDefaults } from '../../base/checks.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import { readFeatureRows } from '../formats/feature-files.js';
import type { FeatureFile } from '../formats/feature-format.js';
import { valuesOf } from '../formats/carried-columns.js';
import { WHOLE_ROWS, type DatasetRow, type MetadataGroup } from '../formats/metadata-columns.js';
import { nameAt, readInputGroups } from './input-groups.js';
import { locateFile } from '../records/locate-file.js';
import type { Manifest } from './manifest.js';
import { readManifest } from './read-manifest.js';
import { readSavedColumns } from './saved-columns.js';
import { cutBlocks, type FeatureBlock } from './cut-blocks.js';
import { placeCells, type SavedColumns } from '../formats/saved-columns.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';

export type { FeatureBlock } from './cut-blocks.js';

/**
 * A finished dataset. It keeps no file open.
 *
 * `Columns` are the columns of the list that was embedded: rows have them under their names.
 */
export interface Dataset<Columns extends object = object> {
  readonly folder: string;
  readonly manifest: Manifest;
  /**
   * The inputs and their outcomes, in the order of the metadata, without those that `removeMissing` removed. Find features by the `row` of an input: feature rows that no input
   * names belong to older outcomes.
   */
  rows(): AsyncIterable<DatasetRow & Readonly<Columns>>;
  /**
   * The rows of a feature in order, over all shards. A block lies within one shard. float16 is widened, bool becomes 0 and 1.
   * float64 and integers beyond 2^24 (int32, int64, …) are rounded to the nearest float32.
   *
   * @param options - `rowsPerBlock`: the largest number of rows in a block, an integer from 1; by default as many as fit in 16 MiB.
   * @throws {@link TapirError} `OPTION_INVALID` for a key that the dataset does not have; `DATASET_INVALID` for a file that is
   * missing, damaged, or differs from the manifest.
   */
  blocks(key: string, options?: BlockOptions): AsyncIterable<FeatureBlock>;
  /**
   * Each input that has a vector, with it, in the order of the rows: one loop over the dataset, in bounded memory. The vector is as
   * {@link Dataset.blocks} gives it, flat, and yours.
   *
   * @throws {@link TapirError} as {@link Dataset.blocks}; `DATASET_INVALID` if the metadata names rows out of order.
   */
  vectors(key: string): AsyncIterable<DatasetVector & Readonly<Columns>>;
}

/** An input and its vector. */
export interface DatasetVector extends DatasetRow {
  readonly row: number;
  /** `product(dims)` elements of the feature, in C order. */
  readonly vector: Float32Array;
}

export interface BlockOptions {
  readonly rowsPerBlock?: number | undefined;
}

const BLOCK_BYTES = 16 * 2 ** 20;
const MAX_ROWS_PER_BLOCK = 2 ** 24;

/**
 * Opens a dataset: reads and checks its manifest. The other files are read and checked when you ask for them.
 *
 * Columns of a list that was embedded (a CSV file, JSON lines, Parquet) are in its rows under their names; names that a row has itself
 * are prefixed: `source_status`. Columns that were saved on the dataset's page (`tapir report --serve`) are there, too. The type parameter
 * says what they are; it is not checked.
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
 * for await (const { path, vector } of dataset.vectors('embedding')) {
 *   console.log(path, vector.length); // 'cat.jpg' 2048
 * }
 *
 * const labelled = await openDataset<{ label: string }>('vectors-of-a-list');
 * for await (const { path, label } of labelled.rows()) console.log(path, label); // 'cat.jpg' 'cat'
 * ```
 */
export async function openDataset<Columns extends object = object>(
  folder: string,
): Promise<Dataset<Columns>> {
  const manifest = await readManifest(checkText('folder', folder));
  return {
    folder,
    manifest,
    // The caller says what the columns of a list are.
    rows: () => inputsOf(folder, manifest) as AsyncIterable<DatasetRow & Columns>,
    blocks: (key, options = {}) => blocksOf(folder, manifest, key, checkOptions(manifest, key, options)),
    vectors(key) {
      const vectors = vectorsOf(folder, manifest, key, checkOptions(manifest, key, {}));
      return vectors as AsyncIterable<DatasetVector & Columns>;
    },
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
  const columns = await readSavedColumns({ folder, manifest });
  const saved = columns.names.length > 0 ? columns : undefined;
  for await (const group of readInputGroups({ folder, manifest }, WHOLE_ROWS))
    for (let i = 0; i < group.length; i++)
      if (group.statuses[i] !== 'removed') yield inputAt(group, i, saved);
}

/** An input with the columns of its list, and those that were saved later. */
export function inputAt(group: MetadataGroup, i: number, saved: SavedColumns | undefined): DatasetRow {
  const { columns, ...own } = group.rowAt(i);
  const input = { ...own, path: nameAt(group, i) } as DatasetRow;
  const later = saved?.valuesOf(placeCells(input));
  return columns || later ? { ...later, ...(columns && valuesOf(columns)), ...input } : input;
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

/** Joins inputs and features, both of which come in the order of the rows. */
async function* vectorsOf(
  folder: string,
  manifest: Manifest,
  key: string,
  rowsPerBlock: number,
): AsyncGenerator<DatasetVector> {
  const blocks = blocksOf(folder, manifest, key, rowsPerBlock);
  try {
    let block: FeatureBlock | undefined;
    for await (const input of inputsOf(folder, manifest)) {
      const { row } = input;
      if (row === null) continue;
      while (block === undefined || row >= block.firstRow + block.rows) {
        const next: IteratorResult<FeatureBlock> = await blocks.next();
        // readMetadata checks that the row exists.
        if (next.done === true) throw datasetInvalid(folder, `row ${row} has no features`);
        block = next.value;
      }
      if (row < block.firstRow)
        throw datasetInvalid(folder, `its metadata names row ${row} after ${block.firstRow}`);
      const size = block.data.length / block.rows;
      const from = (row - block.firstRow) * size;
      yield { ...input, row, vector: block.data.slice(from, from + size) };
    }
  } finally {
    await blocks.return(undefined);
  }
}
