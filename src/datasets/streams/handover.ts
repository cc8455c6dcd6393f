/** Hands values from a writer to a reader, one at a time. */

interface Offer<Value> {
  readonly value: Value;
  taken(): void;
}

/** A queue without room: the writer of a value waits until the reader takes it. */
export class Handover<Value> implements AsyncIterable<Value> {
  #offer: Offer<Value> | undefined;
  #isEnded = false;
  #wake: (() => void) | undefined;

  /** Offers a value. Settles when the reader has taken it, or has stopped. Offer one value at a time. */
  offer(value: Value): Promise<void> {
    if (this.#isEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#offer = { value, taken: resolve };
      this.#wake?.();
    });
  }

  /** Ends the writer's side. The last offer is still taken. */
  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  /** Ends the reader's side. */
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
