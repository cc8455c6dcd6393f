/** A set of row numbers. */

const CHUNK_BITS = 16;

/** One bit per row, in chunks that are allocated when needed: 125 kB for a million consecutive rows. */
export class RowSet {
  readonly #chunks = new Map<number, Uint8Array>();

  add(row: number): void {
    const key = Math.floor(row / 2 ** CHUNK_BITS);
    let chunk = this.#chunks.get(key);
    if (!chunk) this.#chunks.set(key, (chunk = new Uint8Array(2 ** CHUNK_BITS / 8)));
    const bit = row % 2 ** CHUNK_BITS;
    chunk[bit >> 3]! |= 1 << (bit & 7);
  }

  has(row: number): boolean {
    const bit = row % 2 ** CHUNK_BITS;
    const chunk = this.#chunks.get(Math.floor(row / 2 ** CHUNK_BITS));
    return chunk !== undefined && (chunk[bit >> 3]! & (1 << (bit & 7))) !== 0;
  }
}
