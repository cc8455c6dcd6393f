/** A stream of bytes, taken in pieces of the reader's own sizes. */

/** Reads a stream from its beginning to its end, once. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Taken from the stream, and not yet from here. */
  #held: Uint8Array = new Uint8Array(0);
  #isEnded = false;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** The next bytes, which stay where they are; fewer than asked for at the end of the stream. */
  async peek(length: number): Promise<Uint8Array> {
    while (this.#held.length < length && !this.#isEnded) {
      const chunk = await this.#next();
      if (chunk) this.#held = Buffer.concat([this.#held, chunk]);
    }
    return this.#held.subarray(0, length);
  }

  /** Fills a buffer; returns how many bytes of it, fewer at the end of the stream. */
  async readInto(into: Uint8Array): Promise<number> {
    let at = 0;
    while (at < into.length) {
      if (this.#held.length === 0) {
        const chunk = this.#isEnded ? undefined : await this.#next();
        if (!chunk) break;
        this.#held = chunk;
      }
      const part = this.#held.subarray(0, into.length - at);
      into.set(part, at);
      this.#held = this.#held.subarray(part.length);
      at += part.length;
    }
    return at;
  }

  /** What is left, as it comes. */
  async *rest(): AsyncGenerator<Uint8Array> {
    try {
      if (this.#held.length > 0) yield this.#held;
      for (let chunk = await this.#next(); chunk; chunk = await this.#next()) yield chunk;
    } finally {
      await this.close();
    }
  }

  /** Gives the stream up. */
  async close(): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    await this.#chunks.return?.();
  }

  async #next(): Promise<Uint8Array | undefined> {
    if (this.#isEnded) return undefined;
    const { done, value } = await this.#chunks.next();
    if (done !== true) return value;
    this.#isEnded = true;
    return undefined;
  }
}
