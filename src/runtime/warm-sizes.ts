/** A size that is requested this often in a row is steady, and runs unpadded from then on. */
const STEADY_TIMES = 8;

/**
 * The batch sizes that a GPU session has run. For each new size of the inputs, cuDNN searches for the fastest algorithms again, which
 * takes 0.3 to 1.3 s and cannot be turned off in onnxruntime-node. So a batch is padded to a size that has run, or to a power of
 * two: a service whose batches have 1 to 32 rows then searches six times, not 32.
 *
 * Padding never doubles a batch: it goes to the next power of two at most. The first size and a steady one run unpadded.
 */
export class WarmSizes {
  readonly #sizes = new Set<number>();
  /** Smallest size that failed although fewer rows ran. */
  #limit = Infinity;
  #last = 0;
  #times = 0;

  /** The size at which to run `rows`. */
  fit(rows: number): number {
    this.#times = rows === this.#last ? this.#times + 1 : 1;
    this.#last = rows;
    if (this.#sizes.size === 0 || this.#times > STEADY_TIMES) return rows;
    const power = 2 ** (32 - Math.clz32(rows - 1));
    const size = Math.min(power, ...[...this.#sizes].filter((known) => known >= rows));
    return size < this.#limit ? size : rows;
  }

  /** Remembers a size that has run. */
  add(size: number): void {
    this.#sizes.add(size);
  }

  /** Stops padding to a size at which a run failed, and to larger ones, because the same rows ran without padding. */
  refuse(size: number): void {
    this.#limit = Math.min(this.#limit, size);
  }
}
