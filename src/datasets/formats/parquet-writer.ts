/**
 * Writes feature files in Parquet: columns `row`, `path` and the output's key, which is a list of constant length. Each column of a
 * row group is one uncompressed page, so the bytes of a tensor go to the file unchanged. docs/decisions/014 says why this package
 * has its own writer.
 */
import { loadArrow } from '../../tensor/arrow/library.js';
import { elementBytes } from '../../tensor/tensor.js';
import { packageVersion } from '../../base/package.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import { factsOf, type FeatureRows, type FeatureWriter } from './feature-format.js';
import { arrowSchemaEntry } from './feature-schema.js';
import { columnsOf, ENCODINGS, pageHeader, type ParquetColumn } from './parquet-columns.js';
import { binary, i16, i32, i64, list, struct, type ThriftValue } from './thrift.js';
import { RowStage, type RowGroup } from './row-stage.js';

/** The size of a row group. A reader must hold at least one group. */
const GROUP_BYTES = 16 * 2 ** 20;
const MAGIC = Buffer.from('PAR1', 'latin1');
/** Marks our files: only their pages have the layout that the reader expects. */
export const CREATED_BY = 'onnx-tapir version ';

/** Starts a file. */
export async function createParquetWriter(file: AtomicFile, column: FeatureColumn): Promise<FeatureWriter> {
  await file.append(MAGIC);
  const arrowSchema = arrowSchemaEntry(await loadArrow(), column);
  return new ParquetWriter(file, column, { ...factsOf(column), ...arrowSchema });
}

class ParquetWriter implements FeatureWriter {
  readonly #file: AtomicFile;
  readonly #metadata: Readonly<Record<string, string>>;
  readonly #columns: readonly ParquetColumn[];
  readonly #stage: RowStage;
  readonly #groups: ThriftValue[] = [];
  #rows = 0;

  constructor(file: AtomicFile, column: FeatureColumn, metadata: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#metadata = metadata;
    this.#columns = columnsOf(column);
    const rowBytes = column.elements * elementBytes(column.dtype);
    this.#stage = new RowStage(rowBytes, GROUP_BYTES, (group) => this.#writeGroup(group));
  }

  append(rows: FeatureRows): Promise<void> {
    return this.#stage.append(rows);
  }

  async finish(): Promise<number> {
    await this.#stage.flush();
    const footer = Uint8Array.from(this.#footer().bytes);
    const size = Buffer.alloc(4);
    size.writeUInt32LE(footer.length, 0);
    await this.#file.append(Buffer.concat([footer, size, MAGIC]));
    await this.#file.finish();
    return this.#rows;
  }

  discard(): Promise<void> {
    return this.#file.discard();
  }

  async #writeGroup(group: RowGroup): Promise<void> {
    const start = this.#file.size;
    const chunks: ThriftValue[] = [];
    for (const column of this.#columns) chunks.push(await this.#writeColumn(column, group));
    const bytes = this.#file.size - start;
    this.#groups.push(
      struct({
        1: list(chunks),
        2: i64(bytes),
        3: i64(group.rows),
        5: i64(start),
        6: i64(bytes),
        // The field has 16 bits. Readers do not need it.
        7: this.#groups.length < 0x8000 ? i16(this.#groups.length) : undefined,
      }),
    );
    this.#rows += group.rows;
  }

  /** Writes a group's page of one column. Returns its ColumnChunk. */
  async #writeColumn(column: ParquetColumn, group: RowGroup): Promise<ThriftValue> {
    const offset = this.#file.size;
    const { values, parts, statistics } = column.encode(group);
    await this.#file.append(
      pageHeader(
        values,
        parts.reduce((sum, { length }) => sum + length, 0),
      ),
    );
    for (const part of parts) await this.#file.append(part);
    const bytes = this.#file.size - offset;
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

  #footer(): ThriftValue {
    const pairs = Object.entries(this.#metadata).map(([name, value]) =>
      struct({ 1: binary(name), 2: binary(value) }),
    );
    const root = struct({ 4: binary('schema'), 5: i32(this.#columns.length) });
    return struct({
      1: i32(2),
      2: list([root, ...this.#columns.flatMap(({ schema }) => schema)]),
      3: i64(this.#rows),
      4: list(this.#groups),
      5: list(pairs),
      6: binary(CREATED_BY + packageVersion()),
      7: list(this.#columns.map(() => struct({ 1: struct({}) }))),
    });
  }
}
