/** Rows gathered into groups of a bounded size, as the formats with groups write them. */
import { bytesOf } from '../../tensor/bits.js';
import type { FeatureRows } from './feature-rows.js';

/** Most rows of a group: bounds the paths that are kept for it. */
const MAX_GROUP_ROWS = 65_536;

/** Rows that are written together. The views are valid until `write` has settled. */
export interface RowGroup {
  readonly rows: number;
  /** Their elements, in C order. */
  readonly values: Uint8Array;
  /** Row number of each, over all shards. */
  readonly rowNumbers: BigInt64Array;
  readonly paths: readonly (string | null)[];
}

/**
 * Copies rows into one buffer and gives them out when it is full. A tensor that fills groups by itself is not copied.
 */
export class RowStage {
  readonly #rowBytes: number;
  readonly #capacity: number;
  readonly #write: (group: RowGroup) => Promise<void>;
  #buffer: Uint8Array | undefined;
  #rowNumbers: number[] = [];
  #paths: (string | null)[] = [];

  /** @param groupBytes - Bytes of a group: as many rows as they hold, one at least. */
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
      if (this.#paths.length === this.#capacity) await this.#give(isWhole ? part : this.#buffer!);
    }
  }

  /** Gives out the rest. */
  async flush(): Promise<void> {
    const rows = this.#paths.length;
    if (rows > 0) await this.#give(this.#buffer!.subarray(0, rows * this.#rowBytes));
  }

  async #give(values: Uint8Array): Promise<void> {
    const rowNumbers = BigInt64Array.from(this.#rowNumbers, BigInt);
    const group = { rows: rowNumbers.length, values, rowNumbers, paths: this.#paths };
    this.#rowNumbers = [];
    this.#paths = [];
    await this.#write(group);
  }
}
