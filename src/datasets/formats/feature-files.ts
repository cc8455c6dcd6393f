/** Feature files in all formats. To add a format, write its reader and writer and list them here. */
import { open, type FileHandle } from 'node:fs/promises';
import { extname } from 'node:path';
import { AtomicFile } from '../../base/atomic-file.js';
import { checkOneOf, invalidOption } from '../../base/checks.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { elementCount, type DType } from '../../onnx/tensor/tensor.js';
import { readArrowRows } from './arrow-reader.js';
import { createArrowEncoder } from './arrow-writer.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import type { FeatureEncoder, FeatureFile, FeatureRows } from './feature-format.js';
import { createNpyEncoder, readNpyRows } from './npy.js';
import { readParquetRows } from './parquet-reader.js';
import { createParquetEncoder } from './parquet-writer.js';

/** A file format of features; also the ending of its files. */
export type FeatureFormat = 'npy' | 'arrow' | 'parquet';

interface FormatImplementation {
  readonly createEncoder: (file: AtomicFile, column: FeatureColumn) => Promise<FeatureEncoder>;
  /** Reads the rows of a file in order, any number of whole rows at a time. */
  readonly readRows: (handle: FileHandle, file: FeatureFile) => AsyncIterable<Float32Array>;
}

const FORMATS: Readonly<Record<FeatureFormat, FormatImplementation>> = {
  npy: { createEncoder: createNpyEncoder, readRows: readNpyRows },
  arrow: { createEncoder: createArrowEncoder, readRows: readArrowRows },
  parquet: { createEncoder: createParquetEncoder, readRows: readParquetRows },
};

/** All formats that features can be written in. */
export const FEATURE_FORMATS: readonly FeatureFormat[] = Object.keys(FORMATS) as FeatureFormat[];

/** A feature file that is being written. It appears under its name when it is finished. All methods may throw `OUTPUT_UNWRITABLE`. */
export interface FeatureWriter {
  append(rows: FeatureRows): Promise<void>;
  /** Completes the file. Returns its number of rows. */
  finish(): Promise<number>;
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
      async finish() {
        await encoder.end(rows);
        await file.finish();
        return rows;
      },
      discard: () => file.discard(),
    };
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** Reads the rows of a feature file, in the format that its ending names. Throws `DATASET_INVALID`. */
export async function* readFeatureRows(file: FeatureFile): AsyncGenerator<Float32Array> {
  const format = extname(file.path).slice(1);
  if (!Object.hasOwn(FORMATS, format))
    throw datasetInvalid(file.path, `its ending is not one of .${FEATURE_FORMATS.join(', .')}`);
  try {
    await using handle = await open(file.path);
    yield* FORMATS[format as FeatureFormat].readRows(handle, file);
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  }
}
