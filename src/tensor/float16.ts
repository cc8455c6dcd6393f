/** Conversion from and to IEEE 754 binary16: Node 20 has no Float16Array. */

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The bits of the nearest half-precision number. Ties round to even, as in NumPy. */
export function toFloat16Bits(value: number): number {
  float[0] = value;
  const word = bits[0]!;
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  // NaN keeps one payload bit. Infinity and all values from 65520 become infinity.
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  }
  if (magnitude < 0x33000000) return sign; // Below half the smallest subnormal.
  const exponent = magnitude >>> 23;
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const shift = 126 - exponent;
  const truncated = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (truncated + (rest > half || (rest === half && (truncated & 1) === 1) ? 1 : 0));
}

/** The number with these half-precision bits. */
export function fromFloat16Bits(half: number): number {
  const exponent = (half >> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  const sign = half & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25));
}

/** Rounds an array to half precision and returns the bits. */
export function encodeFloat16(values: Float32Array): Uint16Array {
  const result = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) result[i] = toFloat16Bits(values[i]!);
  return result;
}
