/** bfloat16 values, which are the upper halves of float32 values. */

/** float32 values from the bits of bfloat16 ones. Exact. */
export function widenBfloat16(buffer: ArrayBuffer): Float32Array<ArrayBuffer> {
  const halves = new Uint16Array(buffer);
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) words[i] = halves[i]! << 16;
  return new Float32Array(words.buffer);
}

/** The bits of bfloat16 values, rounded to nearest even. */
export function encodeBfloat16(values: Float32Array): Uint16Array<ArrayBuffer> {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(words, (word, i) =>
    Number.isNaN(values[i]) ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16,
  );
}
