/** A stream of bytes, read once from front to back, in sizes that the reader chooses. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Bytes that have arrived and are not read yet. */
  #held: Uint8Array = new Uint8Array(0);
  #isEnded = false;
  /** The number of bytes that were read or skipped. */
  position = 0;

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

  /** Reads bytes into a new buffer. Returns undefined if fewer are left. */
  async read(length: number): Promise<Buffer | undefined> {
    // The system provides pages as they are filled, so a false length costs nothing.
    const bytes = Buffer.allocUnsafeSlow(length);
    let at = 0;
    const isThere = await this.#take(length, (part) => {
      bytes.set(part, at);
      at += part.length;
    });
    return isThere ? bytes : undefined;
  }

  /** Skips bytes. Returns false if fewer are left. */
  skip(length: number): Promise<boolean> {
    return this.#take(length, () => undefined);
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

  async close(): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    await this.#chunks.return?.();
  }

  async #take(length: number, use: (part: Uint8Array) => void): Promise<boolean> {
    for (let left = length; left > 0;) {
      if (this.#held.length === 0) {
        const chunk = await this.#next();
        if (!chunk) return false;
        this.#held = chunk;
      }
      const part = this.#held.subarray(0, left);
      use(part);
      this.#held = this.#held.subarray(part.length);
      this.position += part.length;
      left -= part.length;
    }
    return true;
  }

  async #next(): Promise<Uint8Array | undefined> {
    if (this.#isEnded) return undefined;
    const { done, value } = await this.#chunks.next();
    if (done !== true) return value;
    this.#isEnded = true;
    return undefined;
  }
}
