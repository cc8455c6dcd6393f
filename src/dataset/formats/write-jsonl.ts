/** Feature files with a JSON object per line: `{"path":…,"row":…,"<key>":…}`, arrays nested by the dims. */
import { nestedToJson } from '../../tensor/json-elements.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { FeatureRows, FeatureWriter } from './feature-rows.js';

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
    const { dtype, dims, elements } = this.#column;
    for (let row = 0; row < rows; row++) {
      const path = JSON.stringify(paths[row] ?? null);
      const value = nestedToJson(dtype, tensor.data, row * elements, dims);
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
