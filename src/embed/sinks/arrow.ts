/**
 * Feature files in Arrow's IPC file format: columns `row`, `path` and the output's key, a list of fixed size; more than one dim
 * makes it a tensor (the extension arrow.fixed_shape_tensor).
 */
import type * as Arrows from 'apache-arrow';
import type { Bool, Data, DataType, RecordBatch, RecordBatchFileWriter, Schema } from 'apache-arrow';
import { elementBytes, type DType } from '../../runtime/tensor.js';
import type { AtomicFile } from './atomic-file.js';
import { factsOf, type FeatureColumn, type FeatureRows, type FeatureWriter } from './feature-rows.js';
import { packBits, RowStage, type RowGroup } from './row-stage.js';

type Arrow = typeof Arrows;

/** Bytes of a record batch: what a reader has to hold at least. */
const BATCH_BYTES = 4 * 2 ** 20;

/** Pieces below are joined: the encoder gives some ten of them a batch, and each write is a turn of another thread. */
const SMALL_PIECE_BYTES = 65_536;

/** Arrow's type of a dtype's elements. */
function arrowType(arrow: Arrow, dtype: DType): DataType {
  const types: Readonly<Partial<Record<DType, DataType>>> = {
    float16: new arrow.Float16(),
    float32: new arrow.Float32(),
    float64: new arrow.Float64(),
    int8: new arrow.Int8(),
    int16: new arrow.Int16(),
    int32: new arrow.Int32(),
    int64: new arrow.Int64(),
    uint8: new arrow.Uint8(),
    uint16: new arrow.Uint16(),
    uint32: new arrow.Uint32(),
    uint64: new arrow.Uint64(),
    bool: new arrow.Bool(),
  };
  // Strings were refused before.
  return types[dtype]!;
}

/** Starts a file. */
export async function createArrowWriter(file: AtomicFile, column: FeatureColumn): Promise<FeatureWriter> {
  const arrow = await import('apache-arrow');
  const type = arrowType(arrow, column.dtype);
  const { Field } = arrow;
  const isList = column.dims.length > 0;
  const listed = isList ? new arrow.FixedSizeList(column.elements, new Field('item', type, true)) : type;
  const schema = new arrow.Schema(
    [
      new Field('row', new arrow.Int64(), false),
      new Field('path', new arrow.Utf8(), true),
      new Field(column.key, listed, false, tensorMetadata(column)),
    ],
    new Map(Object.entries(factsOf(column))),
  );
  return new ArrowWriter(arrow, file, column, schema);
}

/** What makes readers see a tensor of the row's shape. */
function tensorMetadata({ dims }: FeatureColumn): Map<string, string> {
  if (dims.length < 2) return new Map();
  return new Map([
    ['ARROW:extension:name', 'arrow.fixed_shape_tensor'],
    ['ARROW:extension:metadata', JSON.stringify({ shape: dims })],
  ]);
}

class ArrowWriter implements FeatureWriter {
  readonly #arrow: Arrow;
  readonly #file: AtomicFile;
  readonly #column: FeatureColumn;
  readonly #schema: Schema;
  readonly #encoder: RecordBatchFileWriter;
  /** What the encoder has made and the file has not yet. */
  readonly #pieces: Uint8Array[] = [];
  readonly #stage: RowStage;
  #rows = 0;

  constructor(arrow: Arrow, file: AtomicFile, column: FeatureColumn, schema: Schema) {
    this.#arrow = arrow;
    this.#file = file;
    this.#column = column;
    this.#schema = schema;
    this.#encoder = createEncoder(arrow, this.#pieces);
    this.#encoder.reset(undefined, schema);
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

  /** A record batch over the rows' own bytes. */
  #toBatch({ rows, rowNumbers, paths, values }: RowGroup): RecordBatch {
    const { Int64, makeData, RecordBatch, Struct } = this.#arrow;
    const type = this.#schema.fields[2]!.type;
    const children = [
      makeData({ type: new Int64(), length: rows, data: rowNumbers }),
      this.#pathData(paths),
      this.#arrow.DataType.isFixedSizeList(type)
        ? makeData({ type, length: rows, child: this.#elementData(values) })
        : this.#elementData(values),
    ];
    const data = makeData({ type: new Struct(this.#schema.fields), length: rows, nullCount: 0, children });
    return new RecordBatch(this.#schema, data);
  }

  #elementData(values: Uint8Array): Data {
    const { dtype } = this.#column;
    const length = values.byteLength / elementBytes(dtype);
    const type = arrowType(this.#arrow, dtype);
    // Arrow takes the bytes of any of its flat types, which TypeScript cannot tell from a type that is known at run time only.
    return this.#arrow.makeData({
      type: type as Bool,
      length,
      nullCount: 0,
      data: dtype === 'bool' ? packBits(values) : values,
    });
  }

  #pathData(paths: readonly (string | null)[]): Data {
    const texts = paths.map((path) => Buffer.from(path ?? '', 'utf8'));
    const valueOffsets = new Int32Array(paths.length + 1);
    for (const [index, { length }] of texts.entries())
      valueOffsets[index + 1] = valueOffsets[index]! + length;
    const present = Uint8Array.from(paths, (path) => (path === null ? 0 : 1));
    return this.#arrow.makeData({
      type: new this.#arrow.Utf8(),
      length: paths.length,
      nullCount: present.filter((bit) => bit === 0).length,
      nullBitmap: packBits(present),
      valueOffsets,
      data: Buffer.concat(texts),
    });
  }
}

/**
 * Arrow's encoder with its output taken as it comes: its own queue is for readers that run beside it, and cannot tell how much of a
 * batch it still holds.
 */
function createEncoder(arrow: Arrow, pieces: Uint8Array[]): RecordBatchFileWriter {
  return new (class extends arrow.RecordBatchFileWriter {
    protected override _write(chunk: ArrayBufferView): this {
      const { buffer, byteOffset, byteLength } = chunk;
      if (this._started && byteLength > 0) {
        pieces.push(new Uint8Array(buffer, byteOffset, byteLength));
        this._position += byteLength;
      }
      return this;
    }
  })();
}
