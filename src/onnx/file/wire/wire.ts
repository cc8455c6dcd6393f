/**
 * Protobuf's wire format over a {@link ByteSource}: protobufjs's Reader on a window that moves over the source. Adds the
 * limits that protobufjs lacks (nesting, message ends, field 0, groups, sizes). Knows nothing of ONNX.
 */
import protobuf from 'protobufjs/minimal.js';
import { TapirError, reasonOf } from '../../../base/errors.js';
import type { ByteSource } from './source.js';

/** The nesting that C++ protobuf, and so ONNX Runtime, accepts. */
const MAX_DEPTH = 100;
/** No tensor has as many axes; PyTorch and NumPy allow 64. */
export const MAX_RANK = 256;
/** No name is as long; real ones are a few hundred bytes. */
const MAX_NAME_BYTES = 2 ** 20;
/** Longer names are rarely repeated. */
const SHARED_NAME_BYTES = 256;
/** What a part of the index must take in the file on average: a node, a tensor, a name inside bodies. Real ones take more. */
const PART_BYTES = 20;
/** Up to this size, density does not matter. */
const FREE_BYTES = 2 ** 20;
/** Bytes read at once from a file: messages between weights are small, so a small window seeks past weights cheaply. */
const WINDOW_BYTES = 16 * 1024;
/** A tag (≤ 5 bytes) and a length or value (≤ 10 bytes). */
const HEAD_BYTES = 16;

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
export const FIXED32 = 5;

/** One field of a message in the source. Offsets count from the start of the file. */
export interface Field {
  readonly number: number;
  readonly wireType: number;
  /** Where the tag begins. */
  readonly start: number;
  /** Where the value begins, after tag and length. */
  readonly bodyStart: number;
  /** The offset after the last byte. */
  readonly end: number;
  /** The value of a varint as a signed 64-bit integer (rounded beyond 2^53); 0 for other wire types. */
  readonly int: number;
}

/** Decodes a name. Bytes that are not UTF-8 become lone surrogates U+DC80…U+DCFF, so that different names stay different. */
export function decodeText(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8');
  // U+FFFD marks a damaged sequence, or is part of the name; encoding it again tells which.
  if (!text.includes('\uFFFD') || Buffer.from(text, 'utf8').equals(buffer)) return text;
  const units = Uint16Array.from(buffer, (byte) => (byte < 0x80 ? byte : 0xdc00 + byte));
  return Buffer.from(units.buffer).toString('utf16le');
}

/** The bytes of a name: the inverse of {@link decodeText}. */
export function encodeText(text: string): Uint8Array {
  if (!/[\uDC80-\uDCFF]/u.test(text)) return Buffer.from(text, 'utf8');
  return Uint8Array.from(text, (char) => char.charCodeAt(0) & 0xff);
}

/** Reads messages of a source field by field. Payloads are read only on request. */
export class WireReader {
  readonly source: ByteSource;
  #reader = protobuf.Reader.create(new Uint8Array(0));
  #windowStart = 0;
  #depth = 0;
  #headBytes = 0;
  #partBytes = 0;
  readonly #names = new Map<string, string>();

  constructor(source: ByteSource) {
    this.source = source;
  }

  /** Calls `onField` for each field between two offsets, in file order. Nested calls count towards the depth limit. */
  readMessage(start: number, end: number, onField: (field: Field) => void): void {
    if (++this.#depth > MAX_DEPTH)
      throw this.malformed(start, `messages are nested more than ${MAX_DEPTH} levels deep`);
    let position = start;
    while (position < end) {
      const field = this.#readField(position, end);
      onField(field);
      position = field.end;
    }
    this.#depth--;
  }

  /** Calls `onField` for each field of the message in a field's body. */
  readBody(field: Field, onField: (inner: Field) => void): void {
    this.#expect(field, DELIMITED);
    this.readMessage(field.bodyStart, field.end, onField);
  }

  /** The body of a field as a name, one string wherever it occurs. Throws `MODEL_MALFORMED` if it has more than a million bytes. */
  readName(field: Field): string {
    const length = field.end - field.bodyStart;
    if (length > MAX_NAME_BYTES)
      throw this.malformed(field.start, `a name has ${length} bytes, more than ${MAX_NAME_BYTES}`);
    const name = decodeText(this.readBytes(field));
    if (length > SHARED_NAME_BYTES) return name;
    const known = this.#names.get(name);
    if (known === undefined) this.#names.set(name, name);
    return known ?? name;
  }

  /**
   * Counts a part of the index. A file of nothing but tiny messages would take up to four hundred times its size in memory.
   *
   * @throws {@link TapirError} `MODEL_MALFORMED` if there are more parts than the bytes read so far, without payloads, can mean.
   */
  countPart(): void {
    this.#partBytes += PART_BYTES;
    if (this.#partBytes > Math.max(this.#headBytes, FREE_BYTES))
      throw this.malformed(
        this.#windowStart + this.#reader.pos,
        'it consists of more tiny parts than any model has',
      );
  }

  /** The body of a field: a view that the next read may overwrite. */
  readBytes(field: Field): Uint8Array {
    this.#expect(field, DELIMITED);
    const length = field.end - field.bodyStart;
    this.#seek(field.bodyStart, length);
    this.#headBytes += length;
    const at = field.bodyStart - this.#windowStart;
    return this.#reader.buf.subarray(at, at + length);
  }

  /** Reads the body of a field into an array that has room for it. Returns its length. */
  copyBytes(field: Field, into: Uint8Array): number {
    this.#expect(field, DELIMITED);
    const length = field.end - field.bodyStart;
    const { byteLength } = this.source.read(field.bodyStart, length, into.subarray(0, length));
    if (byteLength < length) throw this.malformed(field.bodyStart, 'it ends earlier than its size says');
    return length;
  }

  /** The value of a varint field. */
  readInt(field: Field): number {
    this.#expect(field, VARINT);
    return field.int;
  }

  /** The value of a float32 field. */
  readFloat(field: Field): number {
    this.#expect(field, FIXED32);
    this.#seek(field.bodyStart, 4);
    return this.#reader.float();
  }

  /** The values of a repeated integer field, written one by one or packed. Stops at the limit, and then returns false. */
  readInts(field: Field, into: number[], limit: number): boolean {
    if (field.wireType === VARINT) {
      if (into.length === limit) return false;
      into.push(field.int);
      return true;
    }
    this.#expect(field, DELIMITED);
    let position = field.bodyStart;
    while (position < field.end) {
      if (into.length === limit) return false;
      this.#seek(position, Math.min(HEAD_BYTES, this.source.sizeBytes - position));
      into.push(this.#int64());
      position = this.#windowStart + this.#reader.pos;
    }
    if (position !== field.end) throw this.malformed(position, 'a packed list runs past its end');
    return true;
  }

  /** The error for damage at an offset. */
  malformed(byteOffset: number, what: string): TapirError<'MODEL_MALFORMED'> {
    return new TapirError(
      'MODEL_MALFORMED',
      `${this.source.label} is not a valid ONNX file: ${what} (at byte ${byteOffset} of ${this.source.sizeBytes})`,
      { details: { source: this.source.label, byteOffset } },
    );
  }

  #expect(field: Field, wireType: number): void {
    if (field.wireType === wireType) return;
    throw this.malformed(
      field.start,
      `field ${field.number} has wire type ${field.wireType}, expected ${wireType}`,
    );
  }

  #readField(start: number, messageEnd: number): Field {
    this.#seek(start, Math.min(HEAD_BYTES, this.source.sizeBytes - start));
    const reader = this.#reader;
    let number = 0;
    let wireType = 0;
    let int = 0;
    let bodyStart = 0;
    let end = 0;
    try {
      const tag = reader.tag();
      number = tag >>> 3;
      wireType = tag & 7;
      bodyStart = this.#windowStart + reader.pos;
      if (wireType === VARINT) {
        int = this.#int64();
        end = this.#windowStart + reader.pos;
      } else if (wireType === DELIMITED) {
        // Not reader.size(), which stops at protobuf's 2 GiB: a larger file can be cut down to an allowed size.
        const length = this.#int64();
        if (length < 0) throw new Error('a field has a negative length');
        bodyStart = this.#windowStart + reader.pos;
        end = bodyStart + length;
      } else {
        end = bodyStart + (wireType === FIXED64 ? 8 : 4);
      }
    } catch (error) {
      throw this.malformed(
        start,
        error instanceof RangeError ? 'it ends in the middle of a field' : reasonOf(error),
      );
    }
    if (number === 0) throw this.malformed(start, 'a field has number 0');
    if (wireType !== VARINT && wireType !== FIXED64 && wireType !== DELIMITED && wireType !== FIXED32) {
      throw this.malformed(start, `field ${number} has wire type ${wireType}, which ONNX does not use`);
    }
    if (end > messageEnd) {
      const past = end > this.source.sizeBytes ? 'the file (it is cut off or damaged)' : 'its message';
      throw this.malformed(start, `field ${number} of ${end - bodyStart} bytes runs past the end of ${past}`);
    }
    this.#headBytes += bodyStart - start;
    return { number, wireType, start, bodyStart, end, int };
  }

  #int64(): number {
    // protobufjs returns a number if the package "long" is not installed.
    const value = this.#reader.int64() as unknown as number | { toNumber(): number };
    return typeof value === 'number' ? value : value.toNumber();
  }

  /** Puts the reader at an offset, with at least `length` bytes in the window. */
  #seek(offset: number, length: number): void {
    const at = offset - this.#windowStart;
    if (at < 0 || at + length > this.#reader.len) {
      const wanted = Math.min(Math.max(length, WINDOW_BYTES), this.source.sizeBytes - offset);
      const window = this.source.read(offset, wanted);
      if (window.byteLength < length) throw this.malformed(offset, 'it ends earlier than its size says');
      this.#reader = protobuf.Reader.create(window);
      this.#windowStart = offset;
    }
    this.#reader.pos = offset - this.#windowStart;
  }
}

/** The bytes in front of a length-delimited field of a known length. */
export function encodeFieldHead(fieldNumber: number, length: number): Uint8Array {
  return protobuf.Writer.create()
    .uint32(((fieldNumber << 3) | DELIMITED) >>> 0)
    .uint32(length)
    .finish();
}

/** A field that holds a whole number of up to 32 bits, tag included. */
export function encodeIntField(fieldNumber: number, value: number): Uint8Array {
  return protobuf.Writer.create()
    .uint32((fieldNumber << 3) >>> 0)
    .uint32(value)
    .finish();
}
