/** apache-arrow, as far as it is used: types, columns made of bytes, encoders. The only import of it. */
import type * as Arrows from 'apache-arrow';
import type {
  Bool,
  Data,
  DataType,
  Field,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  Schema,
} from 'apache-arrow';
import type { DType } from '../tensor.js';
import { packBits } from '../bits.js';
import type { FeatureColumn } from '../feature-column.js';

export type { Data, DataType, Field, RecordBatch, Schema } from 'apache-arrow';
/** The library, once it is loaded. */
export type Arrow = typeof Arrows;
/** What turns record batches into bytes. */
export type Encoder = RecordBatchFileWriter | RecordBatchStreamWriter;

/** Loads the library. */
export function loadArrow(): Promise<Arrow> {
  return import('apache-arrow');
}

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

/** A type as messages call it. */
export function nameOfType(type: DataType): string {
  return (type as { toString(): string }).toString();
}

/** A feature's column: a list of fixed size, or single values for `[]`; more than one dim makes it a tensor for readers. */
export function featureField(arrow: Arrow, column: FeatureColumn, isNullable: boolean): Field {
  const { key, dtype, dims, elements } = column;
  const type = arrowType(arrow, dtype);
  const listed =
    dims.length > 0 ? new arrow.FixedSizeList(elements, new arrow.Field('item', type, true)) : type;
  return new arrow.Field(key, listed, isNullable, tensorMetadata(dims));
}

/** What makes readers see a tensor of the row's shape. */
function tensorMetadata(dims: readonly number[]): Map<string, string> {
  if (dims.length < 2) return new Map();
  return new Map([
    ['ARROW:extension:name', 'arrow.fixed_shape_tensor'],
    ['ARROW:extension:metadata', JSON.stringify({ shape: dims })],
  ]);
}

/**
 * A feature's rows.
 *
 * @param type - Of its field.
 * @param values - All elements, rows without a value included.
 * @param present - 1 for each row that has a value, 0 for the others; without it, all have.
 */
export function featureData(
  arrow: Arrow,
  type: DataType,
  dtype: DType,
  rows: number,
  values: Uint8Array,
  present?: Uint8Array,
): Data {
  const data = dtype === 'bool' ? packBits(values) : values;
  const nulls = present ? validity(present) : { nullCount: 0 };
  if (!arrow.DataType.isFixedSizeList(type))
    // Arrow takes the bytes of any of its flat types, which TypeScript cannot tell from a type that is known at run time only.
    return arrow.makeData({ type: type as Bool, length: rows, data, ...nulls });
  const item = type.children[0]!.type as Bool;
  const child = arrow.makeData({ type: item, length: rows * type.listSize, nullCount: 0, data });
  return arrow.makeData({ type, length: rows, child, ...nulls });
}

/** A column of texts; null where there is none. */
export function textData(arrow: Arrow, texts: readonly (string | null)[]): Data {
  const bytes = texts.map((text) => Buffer.from(text ?? '', 'utf8'));
  const valueOffsets = new Int32Array(texts.length + 1);
  for (const [index, { length }] of bytes.entries()) valueOffsets[index + 1] = valueOffsets[index]! + length;
  return arrow.makeData({
    type: new arrow.Utf8(),
    length: texts.length,
    ...validity(Uint8Array.from(texts, (text) => (text === null ? 0 : 1))),
    valueOffsets,
    data: Buffer.concat(bytes),
  });
}

/** Which rows have a value. */
export function validity(present: Uint8Array): {
  readonly nullCount: number;
  readonly nullBitmap: Uint8Array;
} {
  return { nullCount: present.filter((bit) => bit === 0).length, nullBitmap: packBits(present) };
}

/**
 * Encoders whose output is taken as it comes: their own queue is for readers that run beside them, and cannot tell how much of a
 * batch it still holds.
 */
export function createFileEncoder(arrow: Arrow, schema: Schema, pieces: Uint8Array[]): Encoder {
  const encoder = new (class extends arrow.RecordBatchFileWriter {
    protected override _write(chunk: ArrayBufferView): this {
      if (this._started) this._position += take(chunk, pieces);
      return this;
    }
  })();
  encoder.reset(undefined, schema);
  return encoder;
}

/** {@link createFileEncoder}, of the stream format. */
export function createStreamEncoder(arrow: Arrow, schema: Schema, pieces: Uint8Array[]): Encoder {
  const encoder = new (class extends arrow.RecordBatchStreamWriter {
    protected override _write(chunk: ArrayBufferView): this {
      if (this._started) this._position += take(chunk, pieces);
      return this;
    }
  })();
  encoder.reset(undefined, schema);
  return encoder;
}

function take({ buffer, byteOffset, byteLength }: ArrayBufferView, pieces: Uint8Array[]): number {
  if (byteLength > 0) pieces.push(new Uint8Array(buffer, byteOffset, byteLength));
  return byteLength;
}
