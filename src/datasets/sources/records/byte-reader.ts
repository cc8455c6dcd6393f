/** A stream of bytes, read in sizes that the reader chooses. */

/** Reads a stream from its beginning to its end, once. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Bytes that have arrived and are not read yet. */
  #held: Uint8Array = new Uint8Array(0);
  #isEnded = false;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Returns the next bytes without consuming them; fewer than requested at the end of the stream. */
  async peek(length: number): Promise<Uint8Array> {
    while (this.#held.length < length && !this.#isEnded) {
      const chunk = await this.#next();
      if (chunk) this.#held = Buffer.concat([this.#held, chunk]);
    }
    return this.#held.subarray(0, length);
  }

  /** Fills a buffer. Returns the number of bytes filled, which is smaller at the end of the stream. */
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

  /** Returns the rest of the stream, chunk by chunk. */
  async *rest(): AsyncGenerator<Uint8Array> {
    try {
      const held = this.#held;
      this.#held = new Uint8Array(0);
      if (held.length > 0) yield held;
      for (let chunk = await this.#next(); chunk; chunk = await this.#next()) yield chunk;
    } finally {
      await this.close();
    }
  }

  /** Closes the stream. */
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
