/** Snappy (its format description, 2011). hyparquet's own decoder copies byte by byte; numbers hardly compress, so that most of a page is one copy. */

/** Runs from this length on are copied at once. */
const LONG = 24;

/**
 * Decompresses a page.
 *
 * @throws Error for what does not have exactly `length` bytes.
 */
export function unpackSnappy(input: Uint8Array, length: number): Uint8Array {
  const output = new Uint8Array(length);
  let at = 0;
  while (at < input.length && input[at]! >= 0x80) at++;
  at++;
  let filled = 0;
  while (at < input.length) {
    const tag = input[at++]!;
    const kind = tag & 3;
    let size = (tag >> 2) + 1;
    if (kind === 0) {
      if (size > 60) {
        const bytes = size - 60;
        size = 1;
        for (let i = 0; i < bytes; i++) size += input[at++]! * 2 ** (8 * i);
      }
      if (!(at + size <= input.length && filled + size <= length)) throw damaged();
      if (size >= LONG) output.set(input.subarray(at, at + size), filled);
      else for (let i = 0; i < size; i++) output[filled + i] = input[at + i]!;
      at += size;
    } else {
      let offset = input[at++]!;
      if (kind === 1) {
        size = ((tag >> 2) & 7) + 4;
        offset += (tag >> 5) << 8;
      } else {
        offset += input[at++]! * 2 ** 8;
        if (kind === 3) {
          offset += input[at++]! * 2 ** 16;
          offset += input[at++]! * 2 ** 24;
        }
      }
      if (!(offset > 0 && offset <= filled && filled + size <= length)) throw damaged();
      const from = filled - offset;
      if (size >= LONG && offset >= size) output.copyWithin(filled, from, from + size);
      else for (let i = 0; i < size; i++) output[filled + i] = output[from + i]!;
    }
    filled += size;
  }
  if (filled !== length) throw damaged();
  return output;
}

function damaged(): Error {
  return new Error('a page compressed with Snappy is damaged');
}
