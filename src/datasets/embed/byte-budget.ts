/** A limit on the bytes that are in memory at once. */

/** Grants bytes in the order of the requests. */
export class ByteBudget {
  readonly #most: number;
  readonly #waiting: { readonly bytes: number; resolve(): void }[] = [];
  #held = 0;

  /** @param most - The bytes that may be held at once. A larger request is granted when nothing else is held. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Waits until the bytes are granted. Return them with {@link release}. */
  async acquire(bytes: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(bytes)) this.#held += bytes;
    else await new Promise<void>((resolve) => this.#waiting.push({ bytes, resolve }));
  }

  /** Returns bytes, and grants waiting requests. */
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
