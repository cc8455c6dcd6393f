/** One value at a time from a writer to a reader that waits for it. */

interface Offer<Value> {
  readonly value: Value;
  taken(): void;
}

/** Whoever offers a value waits until it was taken: nothing is kept in between. */
export class Handover<Value> implements AsyncIterable<Value> {
  #offer: Offer<Value> | undefined;
  #isEnded = false;
  #wake: (() => void) | undefined;

  /** Settles when the reader has taken the value, or will take none any more. One at a time. */
  offer(value: Value): Promise<void> {
    if (this.#isEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#offer = { value, taken: resolve };
      this.#wake?.();
    });
  }

  /** There will be no more. What was offered last is still taken. */
  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  /** Nothing is taken any more. */
  stop(): void {
    this.#offer?.taken();
    this.#offer = undefined;
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Value> {
    try {
      for (;;) {
        const offer = this.#offer;
        if (offer) {
          this.#offer = undefined;
          offer.taken();
          yield offer.value;
        } else if (this.#isEnded) return;
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      }
    } finally {
      this.stop();
    }
  }
}
