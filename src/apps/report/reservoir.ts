/** A fair sample of a stream of unknown length. */
import { createRandom } from './random.js';

/** Vitter's algorithm R: each item of the stream is in the sample with the same probability; all are, if they fit. */
export class Reservoir<Item> {
  readonly #size: number;
  readonly #random: () => number;
  readonly #items: Item[] = [];
  #seen = 0;

  /** @param size - Items to keep at most. */
  constructor(size: number, seed: number) {
    this.#size = size;
    this.#random = createRandom(seed);
  }

  /** The sample so far, in no order. */
  get items(): readonly Item[] {
    return this.#items;
  }

  add(item: Item): void {
    this.#seen++;
    if (this.#items.length < this.#size) {
      this.#items.push(item);
      return;
    }
    const place = Math.floor(this.#random() * this.#seen);
    if (place < this.#size) this.#items[place] = item;
  }
}
