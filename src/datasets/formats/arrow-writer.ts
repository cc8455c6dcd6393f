/**
 * Writes feature files in Arrow's IPC file format: columns `row`, `path` and the output's key, which is a list of fixed size. With
 * more than one dim, it is a tensor (the extension arrow.fixed_shape_tensor).
 */
import { elementBytes } from '../../tensor/tensor.js';
import {
  createFileEncoder,
  featureData,
  loadArrow,
  textData,
  type Arrow,
  type Encoder,
  type RecordBatch,
  type Schema,
} from '../../tensor/arrow/library.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { FeatureRows, FeatureWriter } from './feature-format.js';
import { featureSchema } from './feature-schema.js';
import { RowStage, type RowGroup } from './row-stage.js';

/** The size of a record batch. A reader must hold at least one batch. */
const BATCH_BYTES = 4 * 2 ** 20;

/** Smaller pieces are joined: the encoder makes about ten of them per batch, and each write costs a turn of another thread. */
const SMALL_PIECE_BYTES = 65_536;

/** Starts a file. */
export async function createArrowWriter(file: AtomicFile, column: FeatureColumn): Promise<FeatureWriter> {
  const arrow = await loadArrow();
  return new ArrowWriter(arrow, file, column, featureSchema(arrow, column));
}

class ArrowWriter implements FeatureWriter {
  readonly #arrow: Arrow;
  readonly #file: AtomicFile;
  readonly #column: FeatureColumn;
  readonly #schema: Schema;
  readonly #encoder: Encoder;
  /** Encoded bytes that are not in the file yet. */
  readonly #pieces: Uint8Array[] = [];
  readonly #stage: RowStage;
  #rows = 0;

  constructor(arrow: Arrow, file: AtomicFile, column: FeatureColumn, schema: Schema) {
    this.#arrow = arrow;
    this.#file = file;
    this.#column = column;
    this.#schema = schema;
    this.#encoder = createFileEncoder(arrow, schema, this.#pieces);
    const rowBytes = column.elements * elementBytes(column.dtype);
    this.#stage = new RowStage(rowBytes, BATCH_BYTES, (group) => this.#writeBatch(group));
  }

  append(rows: FeatureRows): Promise<void> {
    return this.#stage.append(rows);
  }

  async finish(): Promise<number> {
    await this.#stage.flush();
    this.#encoder.finish();
    await this.#drain();
    await this.#file.finish();
    return this.#rows;
  }

  discard(): Promise<void> {
    return this.#file.discard();
  }

  async #writeBatch(group: RowGroup): Promise<void> {
    this.#encoder.write(this.#toBatch(group));
    await this.#drain();
    this.#rows += group.rows;
  }

  async #drain(): Promise<void> {
    let small: Uint8Array[] = [];
    for (const piece of [...this.#pieces, undefined]) {
      if (piece && piece.byteLength < SMALL_PIECE_BYTES) {
        small.push(piece);
        continue;
      }
      await this.#file.append(Buffer.concat(small));
      small = [];
      if (piece) await this.#file.append(piece);
    }
    this.#pieces.length = 0;
  }

  /** Makes a record batch that views the rows' bytes. */
  #toBatch({ rows, rowNumbers, paths, values }: RowGroup): RecordBatch {
    const { Int64, makeData, RecordBatch, Struct } = this.#arrow;
    const { type } = this.#schema.fields[2]!;
    const children = [
      makeData({ type: new Int64(), length: rows, data: rowNumbers }),
      textData(this.#arrow, paths),
      featureData(this.#arrow, type, this.#column.dtype, rows, values),
    ];
    const data = makeData({ type: new Struct(this.#schema.fields), length: rows, nullCount: 0, children });
    return new RecordBatch(this.#schema, data);
  }
}
