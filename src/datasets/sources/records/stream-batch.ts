/** A record batch of an Arrow stream. Every length and offset is checked before apache-arrow sees it. */
import type { FlatTable } from '../../formats/flatbuffers.js';
import type { Arrow, Data, DataType, Field } from '../../formats/library.js';

/** Ids of the fields of RecordBatch, from Arrow's Message.fbs. */
const BATCH = { length: 0, nodes: 1, buffers: 2, compression: 3 } as const;
/** Nodes and buffers are structs of two 64-bit integers: length and null count; offset and length. */
const STRUCT_BYTES = 16;
/** Buffers begin at multiples of this. */
const ALIGNMENT = 8;

/**
 * Reads the columns of a batch, as views of its body.
 *
 * @returns One column per field, all of the same length.
 * @throws RangeError if a count, a length or an offset is wrong.
 */
export function readBatch(
  arrow: Arrow,
  fields: readonly Field[],
  header: FlatTable,
  body: Uint8Array,
): { readonly rows: number; readonly columns: readonly Data[] } {
  if (header.has(BATCH.compression)) throw new RangeError('it is compressed; write it without compression');
  const rows = header.int64(BATCH.length);
  const reader = new BatchReader(
    arrow,
    header.structs(BATCH.nodes, STRUCT_BYTES).map(pairOf),
    header.structs(BATCH.buffers, STRUCT_BYTES).map(pairOf),
    body,
  );
  const columns = fields.map((field) => reader.column(field, rows));
  reader.finish();
  return { rows, columns };
}

type Pair = readonly [number, number];

function pairOf(view: DataView): Pair {
  return [Number(view.getBigInt64(0, true)), Number(view.getBigInt64(8, true))];
}

class BatchReader {
  readonly #arrow: Arrow;
  readonly #nodes: readonly Pair[];
  readonly #buffers: readonly Pair[];
  readonly #body: Uint8Array;
  /** The most rows of a column: a row takes at least one bit. */
  readonly #mostRows: number;
  #node = 0;
  #buffer = 0;
  #name = '';

  constructor(arrow: Arrow, nodes: readonly Pair[], buffers: readonly Pair[], body: Uint8Array) {
    this.#arrow = arrow;
    this.#nodes = nodes;
    this.#buffers = buffers;
    this.#body = body;
    this.#mostRows = 8 * body.byteLength;
  }

  column(field: Field, rows: number): Data {
    this.#name = field.name;
    return this.#read(field.type, rows);
  }

  /** Checks that all parts were read. Throws RangeError. */
  finish(): void {
    if (this.#node !== this.#nodes.length || this.#buffer !== this.#buffers.length)
      throw new RangeError('it has more columns than its schema');
  }

  /** @param rows - The required length; undefined for the values of lists, whose offsets are checked instead. */
  #read(type: DataType, rows: number | undefined): Data {
    const [length, nullCount] = this.#nodes[this.#node++] ?? this.#fail('is missing');
    if (length < 0 || length > this.#mostRows || (rows !== undefined && length !== rows))
      this.#fail(`has ${length} rows${rows === undefined ? '' : ` instead of ${rows}`}`);
    if (nullCount < 0 || nullCount > length) this.#fail(`has ${nullCount} nulls in ${length} rows`);
    const { DataType: Types, makeData } = this.#arrow;
    if (Types.isNull(type)) return makeData({ type, length });
    const nulls = this.#validity(length, nullCount);
    if (Types.isStruct(type)) {
      const children = type.children.map((child) => this.#read(child.type, length));
      return makeData({ type, length, ...nulls, children });
    }
    if (Types.isFixedSizeList(type)) {
      const child = this.#read(type.children[0]!.type, length * type.listSize);
      return makeData({ type, length, ...nulls, child });
    }
    if (Types.isList(type) || Types.isMap(type)) {
      const { valueOffsets, end } = this.#offsets(length, Int32Array);
      const child = this.#read(type.children[0]!.type, undefined);
      if (end > child.length) this.#fail('has lists that end after their values');
      // Lists and maps are built alike.
      return makeData({ type: type as never, length, ...nulls, valueOffsets, child } as never);
    }
    if (Types.isBinary(type) || Types.isUtf8(type) || Types.isLargeBinary(type) || Types.isLargeUtf8(type)) {
      const isLarge = Types.isLargeBinary(type) || Types.isLargeUtf8(type);
      const { valueOffsets, end } = this.#offsets(length, isLarge ? BigInt64Array : Int32Array);
      const data = this.#take();
      if (end > data.byteLength) this.#fail('has values that end after their bytes');
      return makeData({ type: type as never, length, ...nulls, valueOffsets, data } as never);
    }
    const data = this.#take();
    const bytes = Types.isBool(type) ? Math.ceil(length / 8) : length * this.#elementBytes(type);
    if (data.byteLength < bytes) this.#fail(`has ${data.byteLength} bytes of values instead of ${bytes}`);
    // One of the flat types.
    return makeData({ type: type as never, length, ...nulls, data: data.subarray(0, bytes) } as never);
  }

  #elementBytes(type: DataType): number {
    const { BYTES_PER_ELEMENT } = type.ArrayType as unknown as { readonly BYTES_PER_ELEMENT: number };
    const none = { type: type as never, length: 0, data: new Uint8Array(0) };
    return BYTES_PER_ELEMENT * (this.#arrow.makeData(none as never) as Data).stride;
  }

  #validity(length: number, nullCount: number): { nullCount: number; nullBitmap?: Uint8Array } {
    const bits = this.#take();
    if (nullCount === 0) return { nullCount };
    if (bits.byteLength < Math.ceil(length / 8)) this.#fail('has too few bits for its nulls');
    return { nullCount, nullBitmap: bits };
  }

  /** Takes offsets and checks that they never decrease. `end` is the last one. */
  #offsets(
    length: number,
    Offsets: typeof Int32Array | typeof BigInt64Array,
  ): { readonly valueOffsets: Int32Array | BigInt64Array; readonly end: number } {
    const bytes = this.#take();
    // Writers may leave out the offsets of a column without rows.
    if (length === 0 && bytes.byteLength === 0) return { valueOffsets: new Offsets(1), end: 0 };
    if (bytes.byteLength < (length + 1) * Offsets.BYTES_PER_ELEMENT) this.#fail('has too few offsets');
    const valueOffsets = new Offsets(bytes.buffer as ArrayBuffer, bytes.byteOffset, length + 1);
    let before: number | bigint = 0;
    for (const offset of valueOffsets) {
      if (offset < before) this.#fail('has offsets that decrease');
      before = offset;
    }
    return { valueOffsets, end: Number(before) };
  }

  #take(): Uint8Array {
    const [offset, length] = this.#buffers[this.#buffer++] ?? this.#fail('lacks a buffer');
    if (offset < 0 || length < 0 || offset % ALIGNMENT !== 0 || offset + length > this.#body.byteLength)
      this.#fail('has a buffer outside the body');
    return this.#body.subarray(offset, offset + length);
  }

  #fail(what: string): never {
    throw new RangeError(`column "${this.#name}" ${what}`);
  }
}
