/** A list of elements in JSON → a tensor's data, parsed in pieces: the event loop goes on, and no list of JavaScript is as long as the whole. */
import { setImmediate } from 'node:timers/promises';
import { endOfText } from '../../base/read-json.js';
import { toFloat16Bits } from '../../tensor/float16.js';
import { createData, type DType, type TensorData } from '../../tensor/tensor.js';
import { countOf, DATATYPES, invalidInput } from './datatypes.js';

/** Bytes that are parsed at once, which takes about a millisecond. */
const PIECE_BYTES = 65_536;
/** Texts are values of JavaScript, so there may be fewer of them than of numbers. */
const MAX_TEXTS = 65_536;

const [OPEN, CLOSE, COMMA, QUOTE, SPACE] = [0x5b, 0x5d, 0x2c, 0x22, 0x20];
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

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
  const data = createData(dtype, count);
  // All kinds of arrays take their elements by place.
  const elements = data as unknown[];
  const wrong = (text: string): Error =>
    invalidInput(input, `be made of ${DATATYPES[dtype]}, and not of ${text.slice(0, 20) || 'nothing'}`);
  let filled = 0;
  for (const piece of cutList(Buffer.from(list), shape, count, input)) {
    const values = parse(piece, wrong);
    if (filled + values.length > count) throw wrongCount(input, count, 'more');
    for (const value of values) {
      const element = convert(value, dtype);
      if (element === undefined) throw wrong(JSON.stringify(value));
      elements[filled++] = element;
    }
    await setImmediate();
  }
  if (filled !== count) throw wrongCount(input, count, String(filled));
  return data;
}

/**
 * Cuts a list at commas, and checks that it is nested as the shape says, or not at all. Its brackets become spaces: what remains is one
 * flat list.
 *
 * @param bytes - Changed.
 */
function* cutList(
  bytes: Buffer,
  shape: readonly number[],
  count: number,
  input: string,
): Generator<Uint8Array> {
  const isNested = shape.length > 1 && /^\[\s*\[/.test(bytes.toString('latin1', 0, PIECE_BYTES));
  const sizes = isNested ? shape : [count];
  /** Of each open list: the lists in it so far; of an innermost one, its commas. */
  const open: number[] = [];
  let start = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === COMMA) {
      if (open.length === sizes.length) open[open.length - 1]!++;
      if (at - start < PIECE_BYTES) continue;
      yield bytes.subarray(start, at);
      start = at + 1;
    } else if (byte === OPEN) {
      if (open.length === sizes.length) throw notNested(input);
      open.push(0);
      bytes[at] = SPACE;
    } else if (byte === CLOSE) {
      const found = open.pop()! + (open.length === sizes.length - 1 ? 1 : 0);
      bytes[at] = SPACE;
      if (isNested && count > 0 && found !== sizes[open.length]) throw notNested(input);
      if (open.length > 0) open[open.length - 1]!++;
    }
  }
  if (count > 0) yield bytes.subarray(start);
  else if (!/^[\s,]*$/.test(bytes.toString('latin1'))) throw wrongCount(input, count, 'more');
}

/** Parses some elements between commas. */
function parse(piece: Uint8Array, wrong: (text: string) => Error): readonly unknown[] {
  let texts: readonly string[] = [''];
  try {
    const text = utf8.decode(piece);
    texts = text.split(',');
    const values = JSON.parse(`[${text}]`) as readonly unknown[];
    if (values.length > 0) return values;
  } catch {
    // The first element that is not JSON is named below.
  }
  throw wrong((texts.find((text) => !isJson(text)) ?? '').trim());
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
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

/** A value of JSON as the dtype stores it; undefined for a value of another kind. */
function convert(value: unknown, dtype: DType): unknown {
  if (dtype === 'string') return typeof value === 'string' ? value : undefined;
  if (dtype === 'bool') return typeof value === 'boolean' ? Number(value) : undefined;
  if (typeof value !== 'number') return undefined;
  const range = RANGES[dtype];
  if (range && !(Number.isInteger(value) && value >= range[0] && value <= range[1])) return undefined;
  if (dtype === 'float16') return toFloat16Bits(value);
  return dtype === 'int64' || dtype === 'uint64' ? BigInt(value) : value;
}

function notNested(input: string): Error {
  return invalidInput(input, 'be nested as its shape says, or not at all');
}

function wrongCount(input: string, count: number, actual: string): Error {
  return invalidInput(input, `have ${count} elements, as its shape says, and not ${actual}`);
}
