/** Gathers rows into groups of a bounded size, for formats that store rows in groups. */
import { bytesOf } from '../../onnx/tensor/bits.js';
import type { FeatureRows } from './feature-format.js';

/** The largest number of rows in a group. It bounds the paths that are kept for the group. */
const MAX_GROUP_ROWS = 65_536;

/** Rows that are written together. The views are valid until `write` has settled. */
export interface RowGroup {
  readonly rows: number;
  /** The bytes of their elements, in C order. */
  readonly values: Uint8Array;
  /** The number of each row, over all shards. */
  readonly rowNumbers: BigInt64Array;
  readonly paths: readonly (string | null)[];
}

/** Copies rows into one buffer and writes the buffer when it is full. Rows that fill a whole group are not copied. */
export class RowStage {
  readonly #rowBytes: number;
  readonly #capacity: number;
  readonly #write: (group: RowGroup) => Promise<void>;
  #buffer: Uint8Array | undefined;
  #rowNumbers: number[] = [];
  #paths: (string | null)[] = [];

  /** @param groupBytes - The size of a group. A group has as many rows as fit, but at least one. */
  constructor(rowBytes: number, groupBytes: number, write: (group: RowGroup) => Promise<void>) {
    this.#rowBytes = rowBytes;
    this.#capacity = Math.min(MAX_GROUP_ROWS, Math.max(1, Math.floor(groupBytes / Math.max(1, rowBytes))));
    this.#write = write;
  }

  async append({ tensor, firstRow, paths }: FeatureRows): Promise<void> {
    const rows = tensor.dims[0]!;
    const bytes = bytesOf(tensor.data);
    for (let at = 0; at < rows;) {
      const taken = Math.min(rows - at, this.#capacity - this.#paths.length);
      const part = bytes.subarray(at * this.#rowBytes, (at + taken) * this.#rowBytes);
      const isWhole = taken === this.#capacity;
      if (!isWhole) {
        this.#buffer ??= new Uint8Array(this.#capacity * this.#rowBytes);
        this.#buffer.set(part, this.#paths.length * this.#rowBytes);
      }
      for (let row = at; row < at + taken; row++) {
        this.#rowNumbers.push(firstRow + row);
        this.#paths.push(paths[row] ?? null);
      }
      at += taken;
      if (this.#paths.length === this.#capacity) await this.#writeGroup(isWhole ? part : this.#buffer!);
    }
  }

  /** Writes the rows that are left. */
  async flush(): Promise<void> {
    const rows = this.#paths.length;
    if (rows > 0) await this.#writeGroup(this.#buffer!.subarray(0, rows * this.#rowBytes));
  }

  async #writeGroup(values: Uint8Array): Promise<void> {
    const rowNumbers = BigInt64Array.from(this.#rowNumbers, BigInt);
    const group = { rows: rowNumbers.length, values, rowNumbers, paths: this.#paths };
    this.#rowNumbers = [];
    this.#paths = [];
    await this.#write(group);
  }
}
