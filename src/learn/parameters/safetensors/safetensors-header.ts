/**
 * The header of a safetensors file: JSON that gives dtype, dims and place of each tensor. The rules are those of the safetensors
 * library: the places cover all data after the header, without gaps and overlaps.
 */
import { isPlainObject, show } from '../../../base/checks.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { SAFETENSORS_TYPES, storedBytes, type StoredType } from '../state/stored-types.js';

/** A tensor, with the range of its bytes after the header. */
export interface HeaderEntry {
  readonly key: string;
  readonly dtype: StoredType;
  readonly dims: readonly number[];
  readonly start: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  readonly metadata: Readonly<Record<string, string>>;
  /** In the order of the header. */
  readonly entries: readonly HeaderEntry[];
}

/** The key of the header that describes no tensor, but the file. */
export const METADATA_KEY = '__metadata__';

/** What {@link parseHeader} throws for one tensor. */
export class EntryError extends Error {
  readonly key: string;

  constructor(key: string, reason: string) {
    super(reason);
    this.key = key;
  }
}

/** Reads a header of a file with so much data after it. Throws EntryError, or Error, if it breaks a rule. */
export function parseHeader(bytes: Uint8Array, dataBytes: number): SafetensorsHeader {
  const { fields, keys } = parseObject(bytes, 'its header');
  const metadata = readMetadata(fields[METADATA_KEY]);
  const entries = keys.filter((key) => key !== METADATA_KEY).map((key) => readEntry(key, fields[key]));
  checkCoverage(entries, dataBytes);
  return { metadata, entries };
}

/** A JSON object. */
export interface ParsedObject {
  readonly fields: Readonly<Record<string, unknown>>;
  /** The keys in the order of the text: JavaScript puts integer-like keys first. */
  readonly keys: readonly string[];
}

/** Parses JSON that must be an object. Throws EntryError if any object in it has a key twice; Error if it is anything else. */
export function parseObject(bytes: Uint8Array, what: string): ParsedObject {
  let fields: unknown;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    fields = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not JSON`, { cause: error });
  }
  if (!isPlainObject(fields)) throw new Error(`${what} is not a JSON object`);
  return { fields, keys: keysOf(text) };
}

/** The keys of valid JSON of an object, in the order of its text. Throws EntryError if any object in it has a key twice: JSON.parse keeps the last. */
function keysOf(text: string): string[] {
  const open: Set<string>[] = [];
  let keys: string[] = [];
  let last = '';
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') {
      const end = endOfString(text, at);
      last = text.slice(at, end + 1);
      at = end;
    } else if (sign === '{') open.push(new Set());
    else if (sign === '}') keys = [...open.pop()!];
    else if (sign === ':') {
      const key = JSON.parse(last) as string;
      const seen = open.at(-1)!;
      if (seen.has(key)) throw new EntryError(key, `it has the key ${show(key)} twice`);
      seen.add(key);
    }
  }
  return keys;
}

/** The position of the quote that ends a string. */
function endOfString(text: string, start: number): number {
  let end = start;
  let escapes: number;
  do {
    end = text.indexOf('"', end + 1);
    escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
  } while (escapes % 2 === 1);
  return end;
}

function readMetadata(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  if (!isPlainObject(value) || Object.values(value).some((text) => typeof text !== 'string'))
    throw new Error(`the ${METADATA_KEY} of its header is not a list of texts`);
  return Object.freeze(value as Record<string, string>);
}

function readEntry(key: string, value: unknown): HeaderEntry {
  if (!isPlainObject(value)) throw new EntryError(key, 'the header does not describe a tensor');
  const { dtype: name, shape, data_offsets: offsets } = value;
  const dtype = typeof name === 'string' ? SAFETENSORS_TYPES.get(name) : undefined;
  if (dtype === undefined) throw new EntryError(key, `its dtype ${show(name)} is unknown`);
  if (!isSizes(shape)) throw new EntryError(key, `its shape is ${show(shape)}`);
  if (!isSizes(offsets) || offsets.length !== 2 || offsets[1]! < offsets[0]!)
    throw new EntryError(key, `its data_offsets are ${show(offsets)}`);
  const [start, end] = offsets as [number, number];
  const needed = storedBytes(dtype, elementCount(shape));
  if (end - start !== needed)
    throw new EntryError(
      key,
      `it has ${end - start} bytes, and ${dtype} of shape ${show(shape)} has ${needed}`,
    );
  return { key, dtype, dims: shape, start, end };
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function checkCoverage(entries: readonly HeaderEntry[], dataBytes: number): void {
  let at = 0;
  for (const { key, start, end } of entries.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    if (start < at) throw new EntryError(key, 'its data overlaps that of another tensor');
    if (start > at) throw new EntryError(key, `${start - at} bytes before its data belong to no tensor`);
    at = end;
  }
  if (at > dataBytes) throw new Error(`it ends before its data does: ${at - dataBytes} bytes are missing`);
  if (at < dataBytes) throw new Error(`its last ${dataBytes - at} bytes belong to no tensor`);
}
