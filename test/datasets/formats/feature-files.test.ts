/** Feature files in every format: written, read back here, and by other programs' libraries. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { tableFromIPC, type Vector } from 'apache-arrow';
import { RecordBatchReader } from 'apache-arrow';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { openDataset } from '../../../src/datasets/files/dataset.js';
import {
  createFeatureWriter,
  FEATURE_FORMATS,
  type FeatureFormat,
} from '../../../src/datasets/formats/feature-files.js';
import { fromFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import { createData, elementCount, type DType, type Tensor } from '../../../src/onnx/tensor/tensor.js';
import { scratchFolder } from '../../support/fixtures.js';
import { readNpy } from '../../support/npy.js';

const scratch = scratchFolder();
const KEY = 'map/4';
const DTYPES = [
  'float32',
  'float16',
  'float64',
  'int8',
  'uint8',
  'int16',
  'uint16',
  'int32',
  'uint32',
  'int64',
  'uint64',
  'bool',
] as const satisfies readonly DType[];
const DIMS = [[], [3], [1], [2, 2, 2]] as const;
const ROWS = 7;

/** Values that use the dtype's range. */
function makeTensor(dtype: DType, rows: number, dims: readonly number[]): Tensor {
  const data = createData(dtype, rows * elementCount(dims)) as Exclude<Tensor['data'], string[]>;
  const bytes = new Uint8Array(data.buffer);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 151 + 17) % 251;
  if (dtype === 'bool') for (let i = 0; i < bytes.length; i++) bytes[i]! &= 1;
  if (data instanceof Float32Array || data instanceof Float64Array)
    for (let i = 0; i < data.length; i++) data[i] = Math.sin(i) * 10 ** ((i % 9) - 4);
  if (dtype === 'float16') for (let i = 0; i < data.length; i++) data[i] = (i * 1009) % 0x7c00;
  return { dtype, dims: [rows, ...dims], data } as Tensor;
}

/** Rows of a tensor, as its own. */
function slice(tensor: Tensor, from: number, to: number): Tensor {
  const [, ...dims] = tensor.dims;
  const count = elementCount(dims);
  // A view: rows lie in the middle of a buffer.
  const data = (tensor.data as Float32Array).subarray(from * count, to * count) as Tensor['data'];
  return { ...tensor, dims: [to - from, ...dims], data } as Tensor;
}

const pathOf = (row: number): string | null => (row === 1 ? null : `höhe/${row}.jpg`);

/** Writes a dataset of one shard whose first row has a number, in appends of some rows. */
async function writeDataset(
  format: FeatureFormat,
  tensor: Tensor,
  { firstRow = 0, perAppend = 3 } = {},
): Promise<{ readonly folder: string; readonly file: string }> {
  const folder = join(scratch, `${format}-${readdirSync(scratch).length}`);
  mkdirSync(folder);
  const [rows, ...dims] = tensor.dims;
  const name = `features.${format}`;
  const writer = await createFeatureWriter(format, join(folder, name), KEY, tensor.dtype, dims);
  for (let row = 0; row < rows!; row += perAppend) {
    const end = Math.min(rows!, row + perAppend);
    const paths = Array.from({ length: end - row }, (_, i) => pathOf(row + i));
    await writer.append({ tensor: slice(tensor, row, end), firstRow: firstRow + row, paths });
  }
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^\.tapir-.*\.partial$/)]);
  expect(await writer.finish()).toBe(rows);
  expect(readdirSync(folder)).toEqual([name]);
  writeFileSync(
    join(folder, 'manifest.json'),
    JSON.stringify({
      format: 'onnx-tapir dataset',
      formatVersion: 1,
      createdAt: '2026-01-01T00:00:00Z',
      source: { kind: 'images', location: null },
      model: { file: 'model.onnx', bytes: 1, sha256: '0', externalFiles: [] },
      request: [],
      transform: {},
      versions: {},
      run: { device: 'cpu', reduced: null, seconds: 0 },
      runs: [],
      counts: { inputs: rows, ok: rows, errors: 0 },
      features: { [KEY]: { dtype: tensor.dtype, dims, folder: '.', rows } },
      shards: [
        {
          inputs: rows,
          rows,
          deadRows: 0,
          firstRow,
          metadata: 'metadata.parquet',
          features: { [KEY]: name },
        },
      ],
    }),
  );
  return { folder, file: join(folder, name) };
}

async function readBack(folder: string, rowsPerBlock?: number): Promise<Float32Array> {
  const dataset = await openDataset(folder);
  const parts: Uint8Array[] = [];
  for await (const { data } of dataset.blocks(KEY, { rowsPerBlock })) parts.push(new Uint8Array(data.buffer));
  return new Float32Array(Uint8Array.from(Buffer.concat(parts)).buffer);
}

/** What `blocks` is to give. */
function widened({ dtype, data }: Tensor): Float32Array {
  return dtype === 'float16'
    ? Float32Array.from(data as Uint16Array, fromFloat16Bits)
    : Float32Array.from(data as Float32Array, Number);
}

/** Bits, for comparing NaN and zeros. */
const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.buffer.slice(0));

/** float32 values of every kind: not a number with two payloads, infinities, zeros, subnormals, limits. */
const SPECIAL = new Float32Array(
  Uint32Array.of(
    0x7fc00000,
    0xffc12345,
    0x7f800000,
    0xff800000,
    0x00000000,
    0x80000000,
    0x00000001,
    0x807fffff,
    0x7f7fffff,
    0x00800000,
    0x3f800001,
    0xbf7fffff,
  ).buffer,
);

describe.each(FEATURE_FORMATS)('%s', (format) => {
  const cases = DTYPES.flatMap((dtype) => DIMS.map((dims) => [dtype, dims] as const));

  it.each(cases)('keeps %s [%s]', async (dtype, dims) => {
    const tensor = makeTensor(dtype, ROWS, dims);
    const { folder } = await writeDataset(format, tensor);
    const expected = widened(tensor);
    expect(await readBack(folder)).toEqual(expected);
    expect(await readBack(folder, 2)).toEqual(expected);
  });

  it('holds many groups, whatever is appended at once', async () => {
    // 24 MB: over the groups' sizes, rows and appends that do not divide them.
    const tensor = makeTensor('float32', 601, [10_001]);
    for (const perAppend of [7, 601]) {
      const { folder, file } = await writeDataset(format, tensor, { perAppend });
      const back = await readBack(folder);
      const expected = (tensor.data as Float32Array).slice().buffer;
      expect(Buffer.compare(Buffer.from(back.buffer), Buffer.from(expected))).toBe(0);
      expect(existsSync(file)).toBe(true);
    }
  });

  it('keeps special values', async () => {
    const tensor: Tensor = { dtype: 'float32', dims: [3, 4], data: SPECIAL };
    const { folder } = await writeDataset(format, tensor);
    expect(bitsOf(await readBack(folder))).toEqual(bitsOf(SPECIAL));
  });

  it('makes no file of rows that never came, and can hold none', async () => {
    const folder = join(scratch, `${format}-empty`);
    mkdirSync(folder);
    const path = join(folder, `x.${format}`);
    const given = await createFeatureWriter(format, path, KEY, 'float32', [2]);
    await given.append({ tensor: makeTensor('float32', 2, [2]), firstRow: 0, paths: ['a', 'b'] });
    await given.discard();
    expect(readdirSync(folder)).toEqual([]);
    const empty = await createFeatureWriter(format, path, KEY, 'float32', [2]);
    expect(await empty.finish()).toBe(0);
    expect(readdirSync(folder)).toEqual([`x.${format}`]);
  });

  it('refuses strings, and a place that cannot be written', async () => {
    const path = join(scratch, `x.${format}`);
    await expect(createFeatureWriter(format, path, KEY, 'string', [2])).rejects.toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    );
    await expect(
      createFeatureWriter(format, join(scratch, 'none', 'x'), KEY, 'float32', [2]),
    ).rejects.toThrow(expect.objectContaining({ code: 'OUTPUT_UNWRITABLE' }));
    expect(readdirSync(scratch).filter((name) => name.startsWith('.tapir-'))).toEqual([]);
  });

  it('refuses files that are cut, damaged or another’s', async () => {
    const tensor = makeTensor('float32', 40, [2, 3]);
    const { folder, file } = await writeDataset(format, tensor);
    const whole = readFileSync(file);
    const invalid = expect.objectContaining({ code: 'DATASET_INVALID' });
    for (const length of [0, 1, 9, 100, 500, whole.length - 1]) {
      writeFileSync(file, whole.subarray(0, length));
      await expect(readBack(folder), `${length} bytes`).rejects.toThrow(invalid);
    }
    // Another row, which would shift those after it.
    for (const at of [256, 500, whole.length - 400, whole.length]) {
      writeFileSync(file, Buffer.concat([whole.subarray(0, at), Buffer.alloc(24), whole.subarray(at)]));
      await expect(readBack(folder), `a row more at byte ${at}`).rejects.toThrow(invalid);
    }
    const other = await writeDataset(format, makeTensor('float32', 40, [7]));
    writeFileSync(file, readFileSync(other.file));
    await expect(readBack(folder), 'other dims').rejects.toThrow(invalid);
    const fewer = await writeDataset(format, makeTensor('float32', 39, [2, 3]));
    writeFileSync(file, readFileSync(fewer.file));
    await expect(readBack(folder), 'fewer rows').rejects.toThrow(invalid);
    const more = await writeDataset(format, makeTensor('float32', 41, [2, 3]));
    writeFileSync(file, readFileSync(more.file));
    await expect(readBack(folder), 'more rows').rejects.toThrow(invalid);
  });

  it('survives any byte being another', async () => {
    const { folder, file } = await writeDataset(format, makeTensor('float32', 5, [3]));
    const whole = readFileSync(file);
    const outcomes = new Set<string>();
    for (let at = 0; at < whole.length; at++) {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= 0xff;
      writeFileSync(file, damaged);
      const outcome = await readBack(folder).then(
        (values) => `${values.length} values`,
        (error: unknown) => (error as { code?: string }).code ?? String(error),
      );
      outcomes.add(outcome);
    }
    expect([...outcomes].toSorted()).toEqual(['15 values', 'DATASET_INVALID']);
  });
});

it('refuses another format', async () => {
  const create = createFeatureWriter('csv' as FeatureFormat, join(scratch, 'x'), KEY, 'float32', []);
  await expect(create).rejects.toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
});

/** Elements as others give them: numbers, bigints or booleans, by row. */
function plainRows({ dtype, dims, data }: Tensor): unknown[][] {
  const count = elementCount(dims.slice(1));
  const plain = Array.from(data as Float32Array, (value): unknown =>
    dtype === 'bool' ? value !== 0 : dtype === 'float16' ? fromFloat16Bits(value) : value,
  );
  return Array.from({ length: dims[0]! }, (_, row) => plain.slice(row * count, (row + 1) * count));
}

const othersCases = DTYPES.flatMap((dtype) => DIMS.map((dims) => [dtype, dims] as const));

describe('read by others', () => {
  it.each(DTYPES)('numpy’s files of %s', async (dtype) => {
    const tensor = makeTensor(dtype, ROWS, [2, 2, 2]);
    expect(readNpy((await writeDataset('npy', tensor)).file)).toEqual(tensor);
  });

  it.each(othersCases)('apache-arrow reads %s [%s]', async (dtype, dims) => {
    const tensor = makeTensor(dtype, ROWS, dims);
    const { file } = await writeDataset('arrow', tensor, { firstRow: 9 });
    const table = tableFromIPC(readFileSync(file));
    expect([...table.getChild('row')!]).toEqual(Array.from({ length: ROWS }, (_, i) => BigInt(9 + i)));
    expect([...table.getChild('path')!]).toEqual(Array.from({ length: ROWS }, (_, i) => pathOf(i)));
    const field = table.schema.fields[2]!;
    expect(field.metadata.get('ARROW:extension:metadata')).toBe(
      dims.length > 1 ? '{"shape":[2,2,2]}' : undefined,
    );
    const rows = Array.from(table.getChild(KEY)! as Iterable<unknown>, (row) =>
      dims.length === 0 ? [row] : Array.from(row as Vector),
    );
    expect(rows).toEqual(plainRows(tensor));
  });

  it('Parquet says to readers made of Arrow that lists have a fixed size', async () => {
    const { file } = await writeDataset('parquet', makeTensor('float32', 3, [5]));
    const { key_value_metadata: entries } = await parquetMetadataAsync(await asyncBufferFromFile(file));
    const entry = entries?.find(({ key }) => key === 'ARROW:schema')?.value ?? '';
    const { schema } = RecordBatchReader.from(Buffer.from(entry, 'base64')).open();
    expect(schema.fields.map(({ name, type, nullable }) => [name, String(type), nullable])).toEqual([
      ['row', 'Int64', false],
      ['path', 'Utf8', true],
      [KEY, 'FixedSizeList[5]<Float32>', false],
    ]);
  });

  it.each(othersCases)('hyparquet reads %s [%s]', async (dtype, dims) => {
    const tensor = makeTensor(dtype, ROWS, dims);
    const { file } = await writeDataset('parquet', tensor, { firstRow: 9 });
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
    expect(rows.map(({ row, path }) => [row, path])).toEqual(
      Array.from({ length: ROWS }, (_, i) => [BigInt(9 + i), pathOf(i)]),
    );
    expect(rows.map((row) => (dims.length === 0 ? [row[KEY]] : row[KEY]))).toEqual(plainRows(tensor));
  });

  it.each(othersCases)('DuckDB reads %s [%s] in Parquet', async (dtype, dims) => {
    const tensor = makeTensor(dtype, ROWS, dims);
    const connection = await (await DuckDBInstance.create()).connect();
    const parquet = await writeDataset('parquet', tensor, { firstRow: 9 });
    const reader = await connection.runAndReadAll(
      `SELECT row, path, "${KEY}" FROM '${parquet.file}' WHERE row > 9 ORDER BY row`,
    );
    const found = reader
      .getRowsJS()
      .map(([row, path, values]) => [row, path, dims.length === 0 ? [values] : values]);
    const expected = plainRows(tensor).map((values, i) => [BigInt(9 + i), pathOf(i), values]);
    expect(found).toEqual(expected.slice(1));
    if (dtype === 'float32' || dtype === 'float16')
      expect(reader.columnType(2).toString()).toBe(dims.length === 0 ? 'FLOAT' : 'FLOAT[]');
    connection.closeSync();
  });
});
