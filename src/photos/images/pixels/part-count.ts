/** The limit on the parts of an image file: chunks, segments, blocks, boxes. */

/** No camera or program writes a thousand. A decoder takes up to 2 µs and 300 bytes for an empty one, and 30 MB hold millions. */
export const MAX_PARTS = 10_000;

/** The file has more than {@link MAX_PARTS} parts. */
export class TooManyParts extends Error {
  constructor() {
    super(`it has more than ${MAX_PARTS} chunks, segments or blocks, which no photo has`);
  }
}

/** Counts the parts of a file as they are walked over. */
export class PartCount {
  #parts = 0;

  /** Adds a part. Throws {@link TooManyParts}. */
  add(): void {
    if (++this.#parts > MAX_PARTS) throw new TooManyParts();
  }
}

/** Walks over all parts. Returns what the generator of the parts returns. */
export function resultOf<Result>(parts: Generator<unknown, Result>): Result {
  let next = parts.next();
  while (next.done !== true) next = parts.next();
  return next.value;
}
