/** Vectors from a file or from standard input: NumPy's `.npy`, or JSON. */
import { NPY_MAGIC, parseNpy } from '../../../datasets/formats/npy.js';
import { invalidOption } from '../../../base/checks.js';
import { reasonOf } from '../../../base/errors.js';

/**
 * Reads vectors: a `.npy` file `[D]` or `[N, D]` of numbers, or JSON, a list of numbers or a list of such lists.
 *
 * @throws {@link TapirError} `OPTION_INVALID`; `DATASET_INVALID` for a damaged `.npy` file.
 */
export function parseVectors(bytes: Uint8Array, source: string): Float32Array[] {
  const isNpy = Buffer.from(bytes.subarray(0, NPY_MAGIC.length)).toString('latin1') === NPY_MAGIC;
  const rows = isNpy ? readNpyVectors(bytes, source) : readJsonVectors(bytes, source);
  const isVectors = rows.length > 0 && rows.every((row) => row.length > 0 && row.every(Number.isFinite));
  if (isVectors) return rows;
  throw invalidOption('vector', 'one or more vectors of finite numbers', source);
}

function readNpyVectors(bytes: Uint8Array, source: string): Float32Array[] {
  const { dims, data } = parseNpy(bytes, source);
  if (dims.length !== 1 && dims.length !== 2)
    throw invalidOption('vector', 'a vector [D] or rows [N, D]', `"${source}" of shape [${dims.join(', ')}]`);
  const elements = dims.at(-1)!;
  const rows = dims.length === 1 ? 1 : dims[0]!;
  return Array.from({ length: rows }, (_, i) => data.slice(i * elements, (i + 1) * elements));
}

function readJsonVectors(bytes: Uint8Array, source: string): Float32Array[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString());
  } catch (error) {
    throw invalidOption('vector', `a .npy file or JSON ("${source}": ${reasonOf(error)})`, source);
  }
  const isNumbers = (list: unknown): list is number[] =>
    Array.isArray(list) && list.length > 0 && list.every((number) => typeof number === 'number');
  if (isNumbers(value)) return [Float32Array.from(value)];
  if (Array.isArray(value) && value.every(isNumbers)) return value.map((list) => Float32Array.from(list));
  throw invalidOption('vector', 'a list of numbers, or a list of such lists, in JSON', source);
}
