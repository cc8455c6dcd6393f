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
    // Most values that are added come last or near it: those before them are looked at from the end.
    let place = values.length;
    while (
      place > 0 &&
      (value > values[place - 1]! || (value === values[place - 1] && index < indices[place - 1]!))
    )
      place--;
    if (place === this.#most) return;
    const last = Math.min(values.length, this.#most - 1);
    for (let i = last; i > place; i--) {
      values[i] = values[i - 1]!;
      indices[i] = indices[i - 1]!;
    }
    values[place] = value;
    indices[place] = index;
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
