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

/** An array in half precision, and what its range cost. */
export interface RangedFloat16 {
  readonly halves: Uint16Array;
  /** Finite values that became infinite: those from 65,520. */
  readonly overflows: number;
  /** Values other than zero that became zero. */
  readonly zeros: number;
  /** Other values below 2^-14, the least normal half. They keep fewer than 11 bits. */
  readonly subnormals: number;
  /** Values other than zero. */
  readonly nonZeros: number;
  /** The largest finite magnitude before rounding. */
  readonly largest: number;
}

/** Rounds an array to half precision, and counts what leaves its range. */
export function encodeFloat16InRange(values: Float32Array): RangedFloat16 {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(values.length);
  let [overflows, zeros, subnormals, nonZeros, largest] = [0, 0, 0, 0, 0];
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const magnitude = word & 0x7fffffff;
    if (magnitude === 0) {
      halves[i] = word >>> 16;
      continue;
    }
    nonZeros++;
    if (magnitude < 0x7f800000 && magnitude > largest) largest = magnitude;
    if (magnitude >= 0x38800000 && magnitude < 0x477ff000) {
      // A normal half: the exponent is moved, and 13 bits are rounded away.
      halves[i] =
        ((word >>> 16) & 0x8000) | ((magnitude + 0xfff + ((magnitude >>> 13) & 1) - 0x38000000) >>> 13);
      continue;
    }
    const half = toFloat16Bits(values[i]!);
    halves[i] = half;
    if (magnitude < 0x38800000) {
      if ((half & 0x7fff) === 0) zeros++;
      else subnormals++;
    } else if (magnitude < 0x7f800000) overflows++;
  }
  bits[0] = largest;
  return { halves, overflows, zeros, subnormals, nonZeros, largest: float[0]! };
}
