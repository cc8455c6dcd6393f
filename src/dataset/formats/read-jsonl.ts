/** Reads features of a JSON object per line. */
import { open, type FileHandle } from 'node:fs/promises';
import { datasetInvalid, datasetUnreadable } from './dataset-invalid.js';
import type { FeatureFile } from './feature-file.js';

/** Longest text of an element, and of what is beside the elements: paths above all. */
const MAX_ELEMENT_LENGTH = 32;
const MAX_BESIDE_LENGTH = 2 ** 18;
const CHUNK_BYTES = 2 ** 20;
const NEWLINE = 10;

/** The rows of a `.jsonl` file: what is null is NaN. */
export async function* readJsonlRows(file: FeatureFile): AsyncGenerator<Float32Array> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file.path);
    let row = 0;
    for await (const line of linesOf(handle, file)) yield parseRow(line, row++, file);
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  } finally {
    await handle?.close();
  }
}

/** Lines, none longer than a row can be. */
async function* linesOf(handle: FileHandle, { path, elements }: FeatureFile): AsyncGenerator<string> {
  const longest = MAX_BESIDE_LENGTH + MAX_ELEMENT_LENGTH * elements;
  let parts: Buffer[] = [];
  let length = 0;
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES);
    if (bytesRead === 0) break;
    let rest = chunk.subarray(0, bytesRead);
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      yield Buffer.concat([...parts, rest.subarray(0, end)]).toString('utf8');
      parts = [];
      length = 0;
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) parts.push(rest);
    length += rest.length;
    if (length > longest) throw datasetInvalid(path, `a line is longer than ${longest} bytes`);
  }
  if (length > 0) throw datasetInvalid(path, 'its last line is cut off');
}

function parseRow(
  line: string,
  index: number,
  { path, key, dims, elements, firstRow }: FeatureFile,
): Float32Array {
  const record: unknown = JSON.parse(line);
  const isRecord = record !== null && typeof record === 'object' && Object.hasOwn(record, key);
  if (!isRecord) throw datasetInvalid(path, `line ${index + 1} has no ${JSON.stringify(key)}`);
  const { row } = record as { row?: unknown };
  if (row !== firstRow + index)
    throw datasetInvalid(path, `line ${index + 1} is row ${String(row)}, not ${firstRow + index}`);
  const values = new Float32Array(elements);
  const end = flatten((record as Record<string, unknown>)[key], dims, values, 0);
  if (end !== elements)
    throw datasetInvalid(path, `line ${index + 1} holds no numbers of shape [${dims.join(', ')}]`);
  return values;
}

/** Writes nested arrays into `values` from `at`; returns where they end, or NaN if they have another shape. */
function flatten(nested: unknown, dims: readonly number[], values: Float32Array, at: number): number {
  const [size, ...inner] = dims;
  if (size === undefined) {
    if (typeof nested !== 'number' && typeof nested !== 'boolean' && nested !== null) return NaN;
    values[at] = nested === null ? NaN : Number(nested);
    return at + 1;
  }
  if (!Array.isArray(nested) || nested.length !== size) return NaN;
  return nested.reduce<number>((end, item) => flatten(item, inner, values, end), at);
}
