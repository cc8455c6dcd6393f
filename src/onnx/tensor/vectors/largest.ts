/** The largest of many values. */

/**
 * Keeps the numbers of the `most` largest values, the largest first; of equal values the one with the lower number comes first. NaN
 * counts as -Infinity.
 */
export class Largest {
  readonly indices: number[] = [];
  readonly values: number[] = [];
  readonly #most: number;
  #least: number;

  constructor(most: number) {
    this.#most = most;
    this.#least = most > 0 ? -Infinity : Infinity;
  }

  /** A value must be larger to be kept, or equal and of a lower number. -Infinity while there is room. */
  get least(): number {
    return this.#least;
  }

  /** Adds a value if it is among the largest. */
  add(index: number, given: number): void {
    const { indices, values } = this;
    if (given < this.#least) return;
    const value = Number.isNaN(given) ? -Infinity : given;
    let from = 0;
    let to = values.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (value > values[middle]! || (value === values[middle] && index < indices[middle]!)) to = middle;
      else from = middle + 1;
    }
    if (from === this.#most) return;
    values.splice(from, 0, value);
    indices.splice(from, 0, index);
    if (values.length > this.#most) {
      values.pop();
      indices.pop();
    }
    if (values.length === this.#most) this.#least = values.at(-1)!;
  }
}

/** The numbers of the `most` largest values, in the order of {@link Largest}. */
export function listLargest(values: ArrayLike<number>, most: number): number[] {
  const largest = new Largest(most);
  for (let i = 0; i < values.length; i++) largest.add(i, values[i]!);
  return largest.indices;
}

/** The index of the highest value; of equal ones the first. */
export function highest(values: ArrayLike<number>): number {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (values[k]! > values[best]!) best = k;
  return best;
}
