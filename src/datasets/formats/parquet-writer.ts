/**
 * Writes feature files in Parquet: columns `row`, `path` and the output's key, which is a list of constant length. Each column of a
 * row group is one uncompressed page, so the bytes of a tensor go to the file unchanged. docs/decisions/014 says why this package
 * has its own writer.
 */
import { loadArrow } from './library.js';
import { elementBytes } from '../../onnx/tensor/tensor.js';
import { packageVersion } from '../../base/package.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { factsOf, type FeatureEncoder } from './feature-format.js';
import { arrowSchemaEntry } from './feature-schema.js';
import { columnsOf, ENCODINGS, pageHeader, type ParquetColumn } from './parquet-columns.js';
import { binary, i16, i32, i64, list, struct, type ThriftValue } from './thrift.js';
import { RowStage, type RowGroup } from './row-stage.js';

/** The size of a row group. A reader must hold at least one group. */
const GROUP_BYTES = 16 * 2 ** 20;
const MAGIC = Buffer.from('PAR1', 'latin1');
/** Marks our files: only their pages have the layout that the reader expects. */
export const CREATED_BY = 'onnx-tapir version ';

export async function createParquetEncoder(file: AtomicFile, column: FeatureColumn): Promise<FeatureEncoder> {
  await file.append(MAGIC);
  const metadata = { ...factsOf(column), ...arrowSchemaEntry(await loadArrow(), column) };
  const columns = columnsOf(column);
  const groups: ThriftValue[] = [];
  const stage = new RowStage(column.elements * elementBytes(column.dtype), GROUP_BYTES, async (group) => {
    groups.push(await writeGroup(file, columns, group, groups.length));
  });
  return {
    append: (rows) => stage.append(rows),
    async end(rows) {
      await stage.flush();
      const footer = encodeFooter(columns, groups, metadata, rows);
      const size = Buffer.alloc(4);
      size.writeUInt32LE(footer.length, 0);
      await file.append(Buffer.concat([footer, size, MAGIC]));
    },
  };
}

/** Writes the pages of a group. Returns its RowGroup. */
async function writeGroup(
  file: AtomicFile,
  columns: readonly ParquetColumn[],
  group: RowGroup,
  number: number,
): Promise<ThriftValue> {
  const start = file.size;
  const chunks: ThriftValue[] = [];
  for (const column of columns) chunks.push(await writeColumn(file, column, group));
  const bytes = file.size - start;
  return struct({
    1: list(chunks),
    2: i64(bytes),
    3: i64(group.rows),
    5: i64(start),
    6: i64(bytes),
    // The field has 16 bits. Readers do not need it.
    7: number < 0x8000 ? i16(number) : undefined,
  });
}

/** Writes a group's page of one column. Returns its ColumnChunk. */
async function writeColumn(file: AtomicFile, column: ParquetColumn, group: RowGroup): Promise<ThriftValue> {
  const offset = file.size;
  const { values, parts, statistics } = column.encode(group);
  const pageBytes = parts.reduce((sum, { length }) => sum + length, 0);
  await file.append(pageHeader(values, pageBytes));
  for (const part of parts) await file.append(part);
  const bytes = file.size - offset;
  const metadata = struct({
    1: i32(column.physical),
    2: list(ENCODINGS.map(i32)),
    3: list(column.path.map(binary)),
    4: i32(0),
    5: i64(values),
    6: i64(bytes),
    7: i64(bytes),
    9: i64(offset),
    12: statistics,
  });
  return struct({ 2: i64(0), 3: metadata });
}

function encodeFooter(
  columns: readonly ParquetColumn[],
  groups: readonly ThriftValue[],
  metadata: Readonly<Record<string, string>>,
  rows: number,
): Uint8Array {
  const pairs = Object.entries(metadata).map(([name, value]) =>
    struct({ 1: binary(name), 2: binary(value) }),
  );
  const root = struct({ 4: binary('schema'), 5: i32(columns.length) });
  const footer = struct({
    1: i32(2),
    2: list([root, ...columns.flatMap(({ schema }) => schema)]),
    3: i64(rows),
    4: list(groups),
    5: list(pairs),
    6: binary(CREATED_BY + packageVersion()),
    7: list(columns.map(() => struct({ 1: struct({}) }))),
  });
  return Uint8Array.from(footer.bytes);
}
