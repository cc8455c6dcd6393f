/** A list of elements in JSON → a tensor's data, read from the bytes without a JavaScript value per element. */
import { setImmediate } from 'node:timers/promises';
import { toFloat16Bits } from '../../tensor/float16.js';
import { createData, type DType, type TensorData } from '../../tensor/tensor.js';
import { countOf, DATATYPES, invalidInput } from './datatypes.js';

/** Longest time that reading a list blocks the event loop. */
const BLOCK_MS = 10;
/** Elements between two looks at the clock. */
const STEP = 4096;
/** Texts are values of JavaScript, so there may be fewer of them than of numbers. */
const MAX_TEXTS = 65_536;

/**
 * Reads the elements of an input. They may be flat or nested as the shape.
 *
 * @param list - JSON from the opening bracket to the closing one; it holds no objects.
 * @throws {@link HttpError} `REQUEST_INVALID`.
 */
export async function readJsonData(
  input: string,
  dtype: DType,
  shape: readonly number[],
  list: Uint8Array,
): Promise<TensorData> {
  const count = countOf(input, shape);
  // Every element takes a byte at least, and another one for the comma or bracket after it.
  if (count > list.length / 2) throw wrongCount(input, count, 'fewer');
  if (dtype === 'string' && count > MAX_TEXTS)
    throw invalidInput(input, `have at most ${MAX_TEXTS} texts in JSON; send more as bytes after the JSON`);
  const reader = new ListReader(input, dtype, shape, list, count);
  let started = performance.now();
  while (!reader.read(STEP)) {
    if (performance.now() - started < BLOCK_MS) continue;
    await setImmediate();
    started = performance.now();
  }
  return reader.data;
}

/** The smallest and the largest value of integers. */
const RANGES: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  uint8: [0, 2 ** 8 - 1],
  uint16: [0, 2 ** 16 - 1],
  uint32: [0, 2 ** 32 - 1],
  // Numbers that JSON readers represent exactly.
  uint64: [0, Number.MAX_SAFE_INTEGER],
  int8: [-(2 ** 7), 2 ** 7 - 1],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/** Powers of ten that a double holds exactly. */
const POWERS = Float64Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));
/** Decimal digits that a double always holds exactly. */
const EXACT_DIGITS = 15;

const [OPEN, CLOSE, COMMA, QUOTE, BACKSLASH] = [0x5b, 0x5d, 0x2c, 0x22, 0x5c];
const [ZERO, MINUS, PLUS, POINT, LOWER_E, UPPER_E] = [0x30, 0x2d, 0x2b, 0x2e, 0x65, 0x45];

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const NEEDS_PARSER = /[\\\p{Cc}]/u;

/** What may come next. */
type Expected = 'value' | 'value or end' | 'comma or end';

class ListReader {
  readonly data: TensorData;
  readonly #input: string;
  readonly #dtype: DType;
  readonly #bytes: Uint8Array;
  readonly #count: number;
  /** Sizes of the lists at each level, outermost first. */
  readonly #sizes: readonly number[];
  /** Items so far of each open list. */
  readonly #items: number[] = [];
  readonly #readOne: () => unknown;
  #at = 0;
  #filled = 0;
  #expected: Expected = 'value';

  constructor(input: string, dtype: DType, shape: readonly number[], bytes: Uint8Array, count: number) {
    this.#input = input;
    this.#dtype = dtype;
    this.#bytes = bytes;
    this.#count = count;
    this.data = createData(dtype, count);
    this.#sizes = this.#isNested() && shape.length > 1 ? shape : [count];
    this.#readOne =
      dtype === 'string'
        ? () => this.#readText()
        : dtype === 'bool'
          ? () => this.#readBoolean()
          : () => this.#readNumber();
  }

  /** Reads some elements; returns whether the list has ended. */
  read(steps: number): boolean {
    // All kinds of arrays take their elements by place.
    const data = this.data as unknown[];
    for (let step = 0; step < steps; step++) {
      const byte = this.#skipSpace();
      if (byte === COMMA) {
        this.#expect('comma or end');
        this.#at++;
        this.#expected = 'value';
      } else if (byte === OPEN) this.#open();
      else if (byte === CLOSE) {
        if (this.#close()) return true;
      } else {
        if (this.#items.length !== this.#sizes.length) throw this.#notNested();
        if (this.#expected === 'comma or end') throw this.#notMadeOf(this.#at);
        if (this.#filled === this.#count) throw wrongCount(this.#input, this.#count, 'more');
        data[this.#filled++] = this.#readOne();
        this.#items[this.#items.length - 1]!++;
        this.#expected = 'comma or end';
      }
    }
    return false;
  }

  #isNested(): boolean {
    this.#at = 1;
    const isNested = this.#skipSpace() === OPEN;
    this.#at = 0;
    return isNested;
  }

  #open(): void {
    if (this.#expected === 'comma or end') throw this.#notMadeOf(this.#at);
    if (this.#items.length === this.#sizes.length) throw this.#notNested();
    this.#items.push(0);
    this.#at++;
    this.#expected = 'value or end';
  }

  /** Closes a list; returns whether it was the outermost one. */
  #close(): boolean {
    if (this.#expected === 'value') throw this.#notMadeOf(this.#at);
    const items = this.#items.pop()!;
    const isLast = this.#items.length === 0;
    if (items !== this.#sizes[this.#items.length]) {
      if (this.#sizes.length === 1) throw wrongCount(this.#input, this.#count, String(items));
      throw this.#notNested();
    }
    this.#at++;
    this.#expected = 'comma or end';
    if (!isLast) this.#items[this.#items.length - 1]!++;
    return isLast;
  }

  #expect(expected: Expected): void {
    if (this.#expected !== expected) throw this.#notMadeOf(this.#at);
  }

  #skipSpace(): number | undefined {
    const bytes = this.#bytes;
    let byte = bytes[this.#at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++this.#at];
    return byte;
  }

  /** A number of JSON's grammar, as the dtype stores it. */
  #readNumber(): number | bigint {
    const start = this.#at;
    const value = this.#parseNumber();
    const dtype = this.#dtype;
    const range = RANGES[dtype];
    if (range && !(Number.isInteger(value) && value >= range[0] && value <= range[1]))
      throw this.#notMadeOf(start);
    if (dtype === 'float16') return toFloat16Bits(value);
    return dtype === 'int64' || dtype === 'uint64' ? BigInt(value) : value;
  }

  #parseNumber(): number {
    const bytes = this.#bytes;
    const start = this.#at;
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let mantissa = 0;
    let byte = bytes[at]!;
    for (; byte >= ZERO && byte <= ZERO + 9; byte = bytes[++at]!) mantissa = mantissa * 10 + byte - ZERO;
    let digits = at - first;
    if (digits === 0 || (digits > 1 && bytes[first] === ZERO)) throw this.#notMadeOf(start);
    let exponent = 0;
    if (byte === POINT) {
      const point = at;
      for (byte = bytes[++at]!; byte >= ZERO && byte <= ZERO + 9; byte = bytes[++at]!)
        mantissa = mantissa * 10 + byte - ZERO;
      exponent = point + 1 - at;
      if (exponent === 0) throw this.#notMadeOf(start);
      digits -= exponent;
    }
    if (byte === LOWER_E || byte === UPPER_E) {
      byte = bytes[++at]!;
      const isSmall = byte === MINUS;
      if (isSmall || byte === PLUS) byte = bytes[++at]!;
      const from = at;
      let power = 0;
      for (; byte >= ZERO && byte <= ZERO + 9; byte = bytes[++at]!) power = power * 10 + byte - ZERO;
      if (at === from) throw this.#notMadeOf(start);
      exponent += isSmall ? -power : power;
    }
    this.#at = at;
    if (digits > EXACT_DIGITS || exponent < -22 || exponent > 22) return Number(this.#text(start, at));
    const size = exponent < 0 ? mantissa / POWERS[-exponent]! : mantissa * POWERS[exponent]!;
    return isNegative ? -size : size;
  }

  #readBoolean(): number {
    const text = this.#text(this.#at, this.#at + 5);
    const isTrue = text.startsWith('true');
    if (!isTrue && text !== 'false') throw this.#notMadeOf(this.#at);
    this.#at += isTrue ? 4 : 5;
    return isTrue ? 1 : 0;
  }

  #readText(): string {
    const start = this.#at;
    if (this.#bytes[start] !== QUOTE) throw this.#notMadeOf(start);
    let end = this.#bytes.indexOf(QUOTE, start + 1);
    while (end >= 0 && this.#isEscaped(end)) end = this.#bytes.indexOf(QUOTE, end + 1);
    if (end < 0) throw this.#notMadeOf(start);
    this.#at = end + 1;
    try {
      const text = utf8.decode(this.#bytes.subarray(start + 1, end));
      // Only these need the parser: escapes, and control characters, which it refuses.
      return NEEDS_PARSER.test(text) ? (JSON.parse(`"${text}"`) as string) : text;
    } catch {
      throw this.#notMadeOf(start);
    }
  }

  #isEscaped(at: number): boolean {
    let backslashes = 0;
    while (this.#bytes[at - 1 - backslashes] === BACKSLASH) backslashes++;
    return backslashes % 2 === 1;
  }

  #text(start: number, end: number): string {
    return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, end - start).toString('latin1');
  }

  #notNested(): Error {
    return invalidInput(this.#input, 'be nested as its shape says, or not at all');
  }

  #notMadeOf(at: number): Error {
    const end = Math.min(at + 20, this.#bytes.length);
    const [text = ''] = /^[^,[\]\s]+|^./s.exec(this.#text(at, end)) ?? [];
    return invalidInput(this.#input, `be made of ${DATATYPES[this.#dtype]}, and not of ${text}`);
  }
}

function wrongCount(input: string, count: number, actual: string): Error {
  return invalidInput(input, `have ${count} elements, as its shape says, and not ${actual}`);
}
