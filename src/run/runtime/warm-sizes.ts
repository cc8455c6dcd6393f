/**
 * How many rows of padding cost about as much as another size: on an H100 a ResNet-50 computes 512 rows in 0.15 s, and cuDNN searches
 * for as long.
 */
const CHANGE_ROWS = 512;

/**
 * The batch size at which a GPU session runs. Whenever the size of its inputs changes, also back to an earlier one, cuDNN searches for the
 * fastest algorithms again. That takes 0.1 to 1.3 s and cannot be turned off in onnxruntime-node. So batches are padded to the size of the
 * run before, until padding has cost as much as a change.
 *
 * The first size runs unpadded. A larger batch raises the size to 1, 1.5, 2, 3, 4, 6, 8, …: a service whose batches grow from 1 to 32
 * rows changes nine times, not 31.
 */
export class WarmSizes {
  #size = 0;
  /** Smallest size that failed although fewer rows ran. */
  #limit = Infinity;
  /** Runs since the last one that needed the whole size, and the most rows of these. */
  #runs = 0;
  #most = 0;

  /** The size at which to run `rows`. */
  fit(rows: number): number {
    if (rows >= this.#size) return this.#change(rows > this.#size ? this.#raise(rows) : rows);
    this.#runs++;
    this.#most = Math.max(this.#most, rows);
    const wasted = this.#runs * (this.#size - this.#most);
    return wasted > CHANGE_ROWS ? this.#change(this.#most) : this.#size;
  }

  /** Starts again, after a run that failed. */
  forget(): void {
    this.#change(0);
  }

  /** Stops padding to a size at which a run failed, and to larger ones: `rows` ran without padding. */
  refuse(size: number, rows: number): void {
    this.#limit = Math.min(this.#limit, size);
    this.#change(rows);
  }

  #raise(rows: number): number {
    if (this.#size === 0) return rows;
    const power = 2 ** (32 - Math.clz32(rows - 1));
    const size = rows <= 0.75 * power ? 0.75 * power : power;
    return size < this.#limit ? size : rows;
  }

  #change(size: number): number {
    this.#size = size;
    this.#runs = 0;
    this.#most = 0;
    return size;
  }
}
