/** A limit on bytes that are in memory at once. */

/** Hands out bytes in the order in which they are asked for. */
export class ByteBudget {
  readonly #most: number;
  readonly #waiting: { readonly bytes: number; resolve(): void }[] = [];
  #held = 0;

  /** @param most - Bytes that may be held at once; more only by one holder alone. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Waits until there is room. Give them back with {@link release}. */
  async acquire(bytes: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(bytes)) this.#held += bytes;
    else await new Promise<void>((resolve) => this.#waiting.push({ bytes, resolve }));
  }

  release(bytes: number): void {
    this.#held -= bytes;
    for (let next = this.#waiting[0]; next && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#held += next.bytes;
      next.resolve();
    }
  }

  #fits(bytes: number): boolean {
    return this.#held === 0 || this.#held + bytes <= this.#most;
  }
}
