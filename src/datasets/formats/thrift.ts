/** The part of Thrift's compact protocol that Parquet's headers need (Apache Thrift, thrift-compact-protocol.md). */

const TYPE = { true: 1, false: 2, byte: 3, i16: 4, i32: 5, i64: 6, binary: 8, list: 9, struct: 12 } as const;

/** An encoded value, and the type that its field states. */
export interface ThriftValue {
  readonly type: number;
  readonly bytes: readonly number[];
}

/** Encodes an unsigned integer with seven bits per byte, lowest bits first. */
export function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}

/** Integers in our headers are never negative, so their zigzag encoding is their double. */
export const i16 = (value: number): ThriftValue => ({ type: TYPE.i16, bytes: varint(2 * value) });
export const i32 = (value: number): ThriftValue => ({ type: TYPE.i32, bytes: varint(2 * value) });
/** Up to 2^52. */
export const i64 = (value: number): ThriftValue => ({ type: TYPE.i64, bytes: varint(2 * value) });
export const byte = (value: number): ThriftValue => ({ type: TYPE.byte, bytes: [value] });
/** In a struct, the type of a boolean field is its value. */
export const bool = (value: boolean): ThriftValue => ({ type: value ? TYPE.true : TYPE.false, bytes: [] });

export function binary(value: Uint8Array | string): ThriftValue {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
  return { type: TYPE.binary, bytes: [...varint(bytes.length), ...bytes] };
}

/** Encodes a list of values of one type. An empty list counts as a list of structs. */
export function list(values: readonly ThriftValue[]): ThriftValue {
  const type = values[0]?.type ?? TYPE.struct;
  const head = values.length < 15 ? [(values.length << 4) | type] : [0xf0 | type, ...varint(values.length)];
  return { type: TYPE.list, bytes: head.concat(...values.map(({ bytes }) => bytes)) };
}

/** Encodes fields by id. Ids ascend, because integer keys of an object do, and are less than 16 apart. */
export function struct(fields: Readonly<Record<number, ThriftValue | undefined>>): ThriftValue {
  const bytes: number[][] = [];
  let last = 0;
  for (const [id, value] of Object.entries(fields)) {
    if (!value) continue;
    bytes.push([((Number(id) - last) << 4) | value.type], value.bytes as number[]);
    last = Number(id);
  }
  return { type: TYPE.struct, bytes: bytes.flat().concat(0) };
}
