/** Feature files with a JSON object per line: `{"path":…,"row":…,"<key>":…}`, arrays nested by the dims. */
import { fromFloat16Bits } from '../../tensor/float16.js';
import type { DType, TensorData } from '../../tensor/tensor.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn, FeatureRows, FeatureWriter } from './feature-rows.js';
import { shortestFloat32 } from './shortest-float.js';

/** Characters that are gathered before they are written. */
const CHUNK_LENGTH = 2 ** 20;

/** Starts a file. */
export async function createJsonlWriter(file: AtomicFile, column: FeatureColumn): Promise<FeatureWriter> {
  return new JsonlWriter(file, column);
}

class JsonlWriter implements FeatureWriter {
  readonly #file: AtomicFile;
  readonly #column: FeatureColumn;
  readonly #name: string;
  #text = '';
  #rows = 0;

  constructor(file: AtomicFile, column: FeatureColumn) {
    this.#file = file;
    this.#column = column;
    this.#name = JSON.stringify(column.key);
  }

  async append({ tensor, firstRow, paths }: FeatureRows): Promise<void> {
    const rows = tensor.dims[0]!;
    for (let row = 0; row < rows; row++) {
      const path = JSON.stringify(paths[row] ?? null);
      const value = jsonOfRow(this.#column, tensor.data, row);
      this.#text += `{"path":${path},"row":${firstRow + row},${this.#name}:${value}}\n`;
      if (this.#text.length >= CHUNK_LENGTH) await this.#flush();
    }
    this.#rows += rows;
  }

  async finish(): Promise<number> {
    await this.#flush();
    await this.#file.finish();
    return this.#rows;
  }

  discard(): Promise<void> {
    return this.#file.discard();
  }

  async #flush(): Promise<void> {
    const text = this.#text;
    this.#text = '';
    await this.#file.append(Buffer.from(text, 'utf8'));
  }
}

/** A row of a feature as JSON: arrays nested by its dims, numbers with the fewest digits. */
export function jsonOfRow({ dtype, dims, elements }: FeatureColumn, data: TensorData, row: number): string {
  return nest(showElements(dtype, data, row * elements, elements), dims);
}

/** The elements of a row as JSON; what is no number, JSON calls null. */
function showElements(dtype: DType, data: TensorData, start: number, count: number): string[] {
  const texts: string[] = [];
  for (let i = start; i < start + count; i++) texts.push(showElement(dtype, data[i]!));
  return texts;
}

/** An element as JSON. */
export function showElement(dtype: DType, value: number | bigint | string): string {
  if (typeof value !== 'number') return String(value);
  if (dtype === 'bool') return value === 0 ? 'false' : 'true';
  const number =
    dtype === 'float32' ? shortestFloat32(value) : dtype === 'float16' ? shortestHalf(value) : value;
  if (!Number.isFinite(number)) return 'null';
  // Not -0: Python would read that as the integer 0.
  return Object.is(number, -0) ? '-0.0' : String(number);
}

function shortestHalf(bits: number): number {
  return shortestFloat32(fromFloat16Bits(bits));
}

/** Arrays within arrays; a single value where there are no dims. */
function nest(texts: readonly string[], dims: readonly number[]): string {
  let level = texts;
  for (const size of dims.toReversed()) {
    const outer = size === 0 ? 0 : level.length / size;
    level = Array.from({ length: outer }, (_, i) => `[${level.slice(i * size, (i + 1) * size).join(',')}]`);
  }
  return level[0] ?? '[]';
}
