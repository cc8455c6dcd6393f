/**
 * Batch sizes that a GPU session has run before. cuDNN searches its algorithms anew for each size of the inputs (0.3 to 1.3 s,
 * which onnxruntime-node cannot turn off), so a smaller batch is filled up to one that is known.
 */
export class WarmSizes {
  readonly #sizes = new Set<number>();

  /** The size to run `rows` at: the smallest known one that is at most twice as large, else `rows` itself, known from now on. */
  fit(rows: number): number {
    const known = [...this.#sizes].filter((size) => size >= rows && size <= 2 * rows);
    const size = known.length > 0 ? Math.min(...known) : rows;
    this.#sizes.add(size);
    return size;
  }
}
