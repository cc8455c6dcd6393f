/** A fair sample of a stream of unknown length. */
import { createRandom } from './random.js';

/** Vitter's algorithm R: each item of the stream is in the sample with the same probability. A short stream is kept whole. */
export class Reservoir<Item> {
  readonly #size: number;
  readonly #random: () => number;
  readonly #items: Item[] = [];
  #seen = 0;

  /** @param size - Maximum number of items to keep. */
  constructor(size: number, seed: number) {
    this.#size = size;
    this.#random = createRandom(seed);
  }

  /** The sample so far, in no particular order. */
  get items(): readonly Item[] {
    return this.#items;
  }

  /** @param make - Makes the item. It is called if the sample takes it. */
  add(make: () => Item): void {
    this.#seen++;
    if (this.#items.length < this.#size) {
      this.#items.push(make());
      return;
    }
    const place = Math.floor(this.#random() * this.#seen);
    if (place < this.#size) this.#items[place] = make();
  }
}
