/** Reads the Parquet files that parquet-writer.ts writes: the values of a row group are the last bytes of its page. */
import type { FileHandle } from 'node:fs/promises';
import type { FileMetaData } from 'hyparquet';
import { unpackBits } from '../../onnx/tensor/bits.js';
import { createData, elementBytes, type DType } from '../../onnx/tensor/tensor.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import { readParquetIndex } from './parquet-reading.js';
import { checkFacts, readExactly, type FeatureFile, type StoredRows } from './feature-format.js';
import { CREATED_BY } from './parquet-writer.js';
import type { Elements } from '../../onnx/tensor/widen.js';

/** The largest group of more than one row. Ours have 16 MiB before 8-bit integers become 32-bit ones. */
const MAX_GROUP_BYTES = 64 * 2 ** 20;

/** The length of the footer, and the magic, at the end of a file. */
const FOOTER_END_BYTES = 8;

/** The dtypes that Parquet stores as another dtype. */
const STORED_AS: Readonly<Partial<Record<DType, DType>>> = {
  int8: 'int32',
  int16: 'int32',
  uint8: 'int32',
  uint16: 'int32',
};

/** Reads the rows of a file, one row group at a time. */
export async function* readParquetRows(handle: FileHandle, file: FeatureFile): AsyncGenerator<Elements> {
  const { size, metadata } = await checkParquet(handle, file);
  for (const group of metadata.row_groups) {
    const { offset, bytes } = locateValues(group, size, file);
    const values = await readExactly(handle, offset, bytes, file.path);
    yield elementsOf(file.dtype, values, Number(group.num_rows) * file.elements);
  }
}

/** Where the rows of a file lie; undefined for bits. */
export async function locateParquetRows(
  handle: FileHandle,
  file: FeatureFile,
): Promise<StoredRows[] | undefined> {
  const { size, metadata } = await checkParquet(handle, file);
  const dtype = STORED_AS[file.dtype] ?? file.dtype;
  if (dtype === 'bool') return undefined;
  return metadata.row_groups.map((group) => {
    const { offset } = locateValues(group, size, file);
    return { offset, rows: Number(group.num_rows), dtype };
  });
}

function elementsOf(dtype: DType, values: Buffer<ArrayBuffer>, count: number): Elements {
  if (dtype === 'bool') return unpackBits(values, count);
  const stored = STORED_AS[dtype];
  if (!stored) return createData(dtype, 0, values.buffer) as Elements;
  const elements = createData(dtype, count) as Int8Array;
  elements.set(createData(stored, 0, values.buffer) as Int32Array);
  return elements;
}

/** Compares the index and the size with the manifest. */
export async function checkParquet(
  handle: FileHandle,
  file: FeatureFile,
): Promise<{ readonly size: number; readonly metadata: FileMetaData }> {
  const metadata = await readParquetIndex(file.path);
  checkMetadata(metadata, file);
  const { size } = await handle.stat();
  const last = metadata.row_groups.at(-1)?.columns.at(-1)?.meta_data;
  const end = last && Number(last.data_page_offset) + Number(last.total_compressed_size);
  const start = size - metadata.metadata_length - FOOTER_END_BYTES;
  // Bytes that were put in or taken out would move what the footer names.
  if (end !== undefined && end !== start)
    throw datasetInvalid(file.path, `its row groups end at byte ${end}, its footer begins at ${start}`);
  return { size, metadata };
}

function checkMetadata({ created_by, num_rows, key_value_metadata }: FileMetaData, file: FeatureFile): void {
  const facts = new Map(key_value_metadata?.map(({ key, value }) => [key, value]));
  if (!created_by?.startsWith(CREATED_BY))
    throw datasetInvalid(file.path, `it was written by ${created_by ?? 'another program'}`);
  checkFacts(file, facts);
  if (Number(num_rows) !== file.rows)
    throw datasetInvalid(file.path, `it has ${num_rows} rows, the manifest says ${file.rows}`);
}

function locateValues(
  group: FileMetaData['row_groups'][number],
  size: number,
  { path, key, dtype, dims, elements }: FeatureFile,
): { readonly offset: number; readonly bytes: number } {
  const rows = Number(group.num_rows);
  const expected = dims.length > 0 ? `${key}/list/element` : key;
  const chunk = group.columns.find(({ meta_data }) => meta_data?.path_in_schema.join('/') === expected);
  const { codec, num_values, total_compressed_size, data_page_offset } = chunk?.meta_data ?? {};
  const bytes =
    dtype === 'bool'
      ? Math.ceil((rows * elements) / 8)
      : rows * elements * elementBytes(STORED_AS[dtype] ?? dtype);
  const start = Number(data_page_offset);
  const end = start + Number(total_compressed_size);
  const isOurs =
    codec === 'UNCOMPRESSED' &&
    Number(num_values) === rows * Math.max(1, elements) &&
    start >= 4 &&
    end <= size &&
    end - start > bytes &&
    (rows === 1 || bytes <= MAX_GROUP_BYTES);
  if (!isOurs) throw datasetInvalid(path, 'its pages do not lie as onnx-tapir writes them');
  return { offset: end - bytes, bytes };
}
