/** The columns of a feature file in Parquet: their schema and their pages. */
import type { DType } from '../../onnx/tensor/tensor.js';
import { packBits } from '../../onnx/tensor/bits.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import type { RowGroup } from './row-stage.js';
import { binary, bool, byte, i32, i64, struct, varint, type ThriftValue } from './thrift.js';

const PHYSICAL = { BOOLEAN: 0, INT32: 1, INT64: 2, FLOAT: 4, DOUBLE: 5, BYTE_ARRAY: 6, FIXED: 7 } as const;
const REPETITION = { required: 0, optional: 1, repeated: 2 } as const;
const CONVERTED = { utf8: 0, list: 3 } as const;
const PLAIN = 0;
const RLE = 3;
/** The encodings of every column: plain values, and levels as runs. */
export const ENCODINGS: readonly number[] = [PLAIN, RLE];

/** How the elements of a dtype are stored. */
interface Storage {
  readonly physical: number;
  /** For integers. The ConvertedType is for readers that do not know logical types. */
  readonly integer?: { readonly bits: number; readonly signed: boolean; readonly converted: number };
  readonly isHalf?: boolean;
}

const integer = (bits: number, signed: boolean, converted: number): Storage => ({
  physical: bits === 64 ? PHYSICAL.INT64 : PHYSICAL.INT32,
  integer: { bits, signed, converted },
});

const STORAGE: Readonly<Record<Exclude<DType, 'string'>, Storage>> = {
  float32: { physical: PHYSICAL.FLOAT },
  float64: { physical: PHYSICAL.DOUBLE },
  float16: { physical: PHYSICAL.FIXED, isHalf: true },
  bool: { physical: PHYSICAL.BOOLEAN },
  uint8: integer(8, false, 11),
  uint16: integer(16, false, 12),
  uint32: integer(32, false, 13),
  uint64: integer(64, false, 14),
  int8: integer(8, true, 15),
  int16: integer(16, true, 16),
  int32: integer(32, true, 17),
  int64: integer(64, true, 18),
};

/** A page, and what the footer says about it. */
export interface Page {
  readonly values: number;
  /** Levels, then values. */
  readonly parts: readonly Uint8Array[];
  readonly statistics: ThriftValue;
}

/** A column: its path in the schema, its type, and how a group becomes a page. */
export interface ParquetColumn {
  readonly path: readonly string[];
  readonly physical: number;
  readonly schema: readonly ThriftValue[];
  encode(group: RowGroup): Page;
}

export function columnsOf(column: FeatureColumn): readonly ParquetColumn[] {
  return [ROW, PATH, featureColumn(column)];
}

const ROW: ParquetColumn = {
  path: ['row'],
  physical: PHYSICAL.INT64,
  schema: [
    struct({
      1: i32(PHYSICAL.INT64),
      3: i32(REPETITION.required),
      4: binary('row'),
      6: i32(18),
      10: integerType(64, true),
    }),
  ],
  encode({ rows, rowNumbers }) {
    const bytes = new Uint8Array(rowNumbers.buffer, rowNumbers.byteOffset, rowNumbers.byteLength);
    // Row numbers ascend. With the last and the first one, a reader can skip groups.
    const statistics = struct({ 3: i64(0), 5: binary(bytes.slice(-8)), 6: binary(bytes.slice(0, 8)) });
    return { values: rows, parts: [bytes], statistics };
  },
};

const PATH: ParquetColumn = {
  path: ['path'],
  physical: PHYSICAL.BYTE_ARRAY,
  schema: [
    struct({
      1: i32(PHYSICAL.BYTE_ARRAY),
      3: i32(REPETITION.optional),
      4: binary('path'),
      6: i32(CONVERTED.utf8),
      10: struct({ 1: struct({}) }),
    }),
  ],
  encode({ rows, paths }) {
    const texts = paths.filter((path) => path !== null).map((path) => Buffer.from(path, 'utf8'));
    const bytes = Buffer.alloc(texts.reduce((sum, { length }) => sum + 4 + length, 0));
    let offset = 0;
    for (const text of texts) {
      offset = bytes.writeUInt32LE(text.length, offset);
      offset += text.copy(bytes, offset);
    }
    const levels = encodeRuns(paths.map((path) => [path === null ? 0 : 1, 1] as const));
    const statistics = struct({ 3: i64(rows - texts.length) });
    return { values: rows, parts: [levels, bytes], statistics };
  },
};

/** The feature's column: a flattened list of constant length, or a plain value if a row has no dims. */
function featureColumn({ key, dtype, dims, elements }: FeatureColumn): ParquetColumn {
  // createFeatureWriter refuses strings.
  const { physical, integer: int, isHalf } = STORAGE[dtype as Exclude<DType, 'string'>];
  const isList = dims.length > 0;
  const element = struct({
    1: i32(physical),
    2: isHalf ? i32(2) : undefined,
    3: i32(REPETITION.required),
    4: binary(isList ? 'element' : key),
    6: int && i32(int.converted),
    10: int ? integerType(int.bits, int.signed) : isHalf ? struct({ 15: struct({}) }) : undefined,
  });
  const outer = struct({
    3: i32(REPETITION.required),
    4: binary(key),
    5: i32(1),
    6: i32(CONVERTED.list),
    10: struct({ 3: struct({}) }),
  });
  const repeated = struct({ 3: i32(REPETITION.repeated), 4: binary('list'), 5: i32(1) });
  return {
    path: isList ? [key, 'list', 'element'] : [key],
    physical,
    schema: isList ? [outer, repeated, element] : [element],
    encode({ rows, values }) {
      const levels = isList ? encodeListLevels(rows, elements) : [];
      const statistics = struct({ 3: i64(0) });
      return {
        values: rows * Math.max(1, elements),
        parts: [...levels, storedValues(dtype, values)],
        statistics,
      };
    },
  };
}

/** Returns elements as Parquet stores them: 8-bit and 16-bit integers with 32 bits, booleans as bits. */
function storedValues(dtype: DType, values: Uint8Array): Uint8Array {
  const { buffer, byteOffset, byteLength } = values;
  const widened = (elements: Iterable<number>): Uint8Array =>
    new Uint8Array(Int32Array.from(elements).buffer);
  if (dtype === 'bool') return packBits(values);
  if (dtype === 'uint8') return widened(values);
  if (dtype === 'int8') return widened(new Int8Array(buffer, byteOffset, byteLength));
  if (dtype === 'int16') return widened(new Int16Array(buffer, byteOffset, byteLength / 2));
  if (dtype === 'uint16') return widened(new Uint16Array(buffer, byteOffset, byteLength / 2));
  return values;
}

/**
 * Encodes the levels of lists that all have the same length. The repetition level is 0 where a list begins and 1 elsewhere. Every
 * element is defined. An empty list has one entry, which is not defined.
 */
function encodeListLevels(rows: number, length: number): Uint8Array[] {
  const entries = Math.max(1, length);
  const row = [[0, 1] as const, [1, entries - 1] as const];
  const repetitions = entries === 1 ? [[0, rows] as const] : Array.from({ length: rows }, () => row).flat();
  return [encodeRuns(repetitions), encodeRuns([[length === 0 ? 0 : 1, rows * entries]])];
}

/** Levels of one bit as runs, after their size in bytes. */
function encodeRuns(runs: readonly (readonly [level: number, count: number])[]): Uint8Array {
  const bytes: number[] = [];
  for (let at = 0; at < runs.length;) {
    const [level] = runs[at]!;
    let count = 0;
    for (; at < runs.length && runs[at]![0] === level; at++) count += runs[at]![1];
    bytes.push(...varint(2 * count), level);
  }
  const encoded = Buffer.alloc(4 + bytes.length);
  encoded.writeUInt32LE(bytes.length, 0);
  encoded.set(bytes, 4);
  return encoded;
}

function integerType(bits: number, signed: boolean): ThriftValue {
  return struct({ 10: struct({ 1: byte(bits), 2: bool(signed) }) });
}

/** The header of a page that is not compressed. */
export function pageHeader(values: number, bytes: number): Uint8Array {
  const data = struct({ 1: i32(values), 2: i32(PLAIN), 3: i32(RLE), 4: i32(RLE) });
  return Uint8Array.from(struct({ 1: i32(0), 2: i32(bytes), 3: i32(bytes), 5: data }).bytes);
}
