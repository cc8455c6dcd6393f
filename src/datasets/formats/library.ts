/** The only importer of apache-arrow: types, columns made from bytes, encoders. */
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
import type { DType } from '../../onnx/tensor/tensor.js';
import { packBits } from '../../onnx/tensor/bits.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';

export type { Data, DataType, Field, RecordBatch, Schema } from 'apache-arrow';
/** The loaded library. */
export type Arrow = typeof Arrows;
/** Turns record batches into bytes. */
export type Encoder = RecordBatchFileWriter | RecordBatchStreamWriter;

/** Loads the library. */
export function loadArrow(): Promise<Arrow> {
  return import('apache-arrow');
}

/** Returns Arrow's type for the elements of a dtype. */
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
  // Callers refuse strings earlier.
  return types[dtype]!;
}

/** Returns the name of a type, for messages. */
export function nameOfType(type: DataType): string {
  return (type as { toString(): string }).toString();
}

/** Makes the field of a feature: a list of fixed size, or single values for `[]`. With more than one dim, readers see a tensor. */
export function featureField(arrow: Arrow, column: FeatureColumn, isNullable: boolean): Field {
  const { key, dtype, dims, elements } = column;
  const type = arrowType(arrow, dtype);
  const listed =
    dims.length > 0 ? new arrow.FixedSizeList(elements, new arrow.Field('item', type, true)) : type;
  return new arrow.Field(key, listed, isNullable, tensorMetadata(dims));
}

/** Tells readers that each row is a tensor of this shape. */
function tensorMetadata(dims: readonly number[]): Map<string, string> {
  if (dims.length < 2) return new Map();
  return new Map([
    ['ARROW:extension:name', 'arrow.fixed_shape_tensor'],
    ['ARROW:extension:metadata', JSON.stringify({ shape: dims })],
  ]);
}

/**
 * Makes the column of a feature, whose field has the given type. `values` are the bytes of all elements, also of rows without a value;
 * `present` is 1 for each row that has one. Without it, all rows have one.
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
    // makeData takes the bytes of any flat type. The type is known only at run time, so the cast satisfies TypeScript.
    return arrow.makeData({ type: type as Bool, length: rows, data, ...nulls });
  const item = type.children[0]!.type as Bool;
  const child = arrow.makeData({ type: item, length: rows * type.listSize, nullCount: 0, data });
  return arrow.makeData({ type, length: rows, child, ...nulls });
}

/** Makes a column of texts and nulls. */
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

/** Makes the bitmap that says which rows have a value. */
export function validity(present: Uint8Array): {
  readonly nullCount: number;
  readonly nullBitmap: Uint8Array;
} {
  return { nullCount: present.filter((bit) => bit === 0).length, nullBitmap: packBits(present) };
}

/**
 * Creates an encoder of the file format that puts its output into `pieces` at once. The library's own queue is for readers that
 * run at the same time, and does not say how much of a batch it still holds.
 */
export function createFileEncoder(arrow: Arrow, schema: Schema, pieces: Uint8Array[]): Encoder {
  return createEncoder(arrow.RecordBatchFileWriter, schema, pieces);
}

/** Creates such an encoder of the stream format. */
export function createStreamEncoder(arrow: Arrow, schema: Schema, pieces: Uint8Array[]): Encoder {
  return createEncoder(arrow.RecordBatchStreamWriter, schema, pieces);
}

function createEncoder(
  Writer: typeof RecordBatchFileWriter | typeof RecordBatchStreamWriter,
  schema: Schema,
  pieces: Uint8Array[],
): Encoder {
  // TypeScript does not extend one of two classes.
  const encoder = new (class extends (Writer as typeof RecordBatchStreamWriter) {
    protected override _write({ buffer, byteOffset, byteLength }: ArrayBufferView): this {
      if (!this._started) return this;
      if (byteLength > 0) pieces.push(new Uint8Array(buffer, byteOffset, byteLength));
      this._position += byteLength;
      return this;
    }
  })();
  encoder.reset(undefined, schema);
  return encoder;
}
