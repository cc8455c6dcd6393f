/** Feature files in all formats. To add a format, write its reader and writer and list them here. */
import { open, type FileHandle } from 'node:fs/promises';
import { extname } from 'node:path';
import { AtomicFile } from '../../base/atomic-file.js';
import { checkOneOf, invalidOption } from '../../base/checks.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { elementCount, type DType } from '../../onnx/tensor/tensor.js';
import { checkArrow, locateArrowRows, readArrowRows } from './arrow-reader.js';
import { createArrowEncoder } from './arrow-writer.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import type { FeatureEncoder, FeatureFile, FeatureRows, StoredRows } from './feature-format.js';
import { checkNpy, createNpyEncoder, locateNpyRows, readNpyRows } from './npy.js';
import { checkParquet, locateParquetRows, readParquetRows } from './parquet-reader.js';
import { createParquetEncoder } from './parquet-writer.js';
import { widenElements, type Elements } from '../../onnx/tensor/widen.js';

/** A file format of features; also the ending of its files. */
export type FeatureFormat = 'npy' | 'arrow' | 'parquet';

interface FormatImplementation {
  readonly createEncoder: (file: AtomicFile, column: FeatureColumn) => Promise<FeatureEncoder>;
  /** Reads the rows of a file in order, any number of whole rows at a time, with the dtype that was written. */
  readonly readRows: (handle: FileHandle, file: FeatureFile) => AsyncIterable<Elements>;
  /** Where the rows lie in a file, if as whole numbers. */
  readonly locate: (handle: FileHandle, file: FeatureFile) => Promise<StoredRows[] | undefined>;
  /** Checks what a file says about itself, and its size, without reading rows. Reading them checks the same. */
  readonly check: (handle: FileHandle, file: FeatureFile) => Promise<unknown>;
}

const FORMATS: Readonly<Record<FeatureFormat, FormatImplementation>> = {
  npy: { createEncoder: createNpyEncoder, readRows: readNpyRows, locate: locateNpyRows, check: checkNpy },
  arrow: {
    createEncoder: createArrowEncoder,
    readRows: readArrowRows,
    locate: locateArrowRows,
    check: checkArrow,
  },
  parquet: {
    createEncoder: createParquetEncoder,
    readRows: readParquetRows,
    locate: locateParquetRows,
    check: checkParquet,
  },
};

/** All formats that features can be written in. */
export const FEATURE_FORMATS: readonly FeatureFormat[] = Object.keys(FORMATS) as FeatureFormat[];

/** A feature file that is being written. It appears under its name when it is finished. All methods may throw `OUTPUT_UNWRITABLE`. */
export interface FeatureWriter {
  append(rows: FeatureRows): Promise<void>;
  /** Completes the file. It appears under `name` if that is given. Returns its number of rows. */
  finish(name?: string): Promise<number>;
  /** Removes what was written. */
  discard(): Promise<void>;
}

/**
 * Starts a feature file.
 *
 * @param path - Where the file appears when it is finished; its ending is the name of the format.
 * @throws {@link TapirError} `OPTION_INVALID` for an unknown format, or for strings; `OUTPUT_UNWRITABLE`.
 */
export async function createFeatureWriter(
  format: FeatureFormat,
  path: string,
  key: string,
  dtype: DType,
  rowDims: readonly number[],
): Promise<FeatureWriter> {
  const { createEncoder } = FORMATS[checkOneOf('format', format, FEATURE_FORMATS)];
  if (dtype === 'string') throw invalidOption('returnNodes', 'made of numeric outputs to write them', dtype);
  const file = await AtomicFile.create(path);
  try {
    const column = { key, dtype, dims: rowDims, elements: elementCount(rowDims) };
    const encoder = await createEncoder(file, column);
    let rows = 0;
    return {
      async append(more) {
        await encoder.append(more);
        rows += more.tensor.dims[0]!;
      },
      async finish(name) {
        await encoder.end(rows);
        await file.finish(name);
        return rows;
      },
      discard: () => file.discard(),
    };
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** Reads the rows of a feature file, in the format that its ending names, as float32. Throws `DATASET_INVALID`. */
export async function* readFeatureRows(file: FeatureFile): AsyncGenerator<Float32Array> {
  for await (const elements of readStoredRows(file)) yield widenElements(file.dtype, elements);
}

/** Reads the same rows as they were written. */
export async function* readStoredRows(file: FeatureFile): AsyncGenerator<Elements> {
  const { readRows } = formatOf(file);
  try {
    await using handle = await open(file.path);
    yield* readRows(handle, file);
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  }
}

/** Finds where the rows of a feature file lie, for readers that take them as they are; undefined if they are stored as bits. Throws `DATASET_INVALID`. */
export async function locateStoredRows(file: FeatureFile): Promise<StoredRows[] | undefined> {
  const { locate } = formatOf(file);
  try {
    await using handle = await open(file.path);
    const located = await locate(handle, file);
    const rows = located?.reduce((sum, one) => sum + one.rows, 0) ?? file.rows;
    if (rows === file.rows) return located;
    throw datasetInvalid(file.path, `it holds ${rows} rows, the manifest says ${file.rows}`);
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  }
}

/** Checks that a feature file is what the manifest says, without reading its rows: a longer one would shift them. Throws `DATASET_INVALID`. */
export async function checkFeatureFile(file: FeatureFile): Promise<void> {
  const { check } = formatOf(file);
  try {
    await using handle = await open(file.path);
    await check(handle, file);
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  }
}

function formatOf({ path }: FeatureFile): FormatImplementation {
  const format = extname(path).slice(1);
  if (Object.hasOwn(FORMATS, format)) return FORMATS[format as FeatureFormat];
  throw datasetInvalid(path, `its ending is not one of .${FEATURE_FORMATS.join(', .')}`);
}
