/** float32 values as the decimal numbers that people would write. */

const POWERS = Float64Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));
/** Six digits are what every normal float32 keeps, nine tell any two apart. */
const MIN_DIGITS = 6;
const MAX_DIGITS = 9;
/** Below, floats are subnormal and keep fewer. */
const MIN_NORMAL = 2 ** -126;

/**
 * The number with the fewest digits that rounds to a float32 value: `0.1` for 0.10000000149011612. Its text is short too.
 *
 * A decimal of at most nine digits over a power of ten up to 10^22 is one correctly rounded division of doubles, so candidates are
 * made by arithmetic; beyond, by `toPrecision`.
 *
 * @param value - A float32 value; NaN, infinities and zeros are returned as they are.
 */
export function shortestFloat32(value: number): number {
  const size = Math.abs(value);
  if (size === 0 || !Number.isFinite(value)) return value;
  const exponent = Math.floor(Math.log10(size));
  for (let digits = size < MIN_NORMAL ? 1 : MIN_DIGITS; digits < MAX_DIGITS; digits++) {
    const candidate = roundTo(size, digits, exponent);
    if (Math.fround(candidate) === size) return value < 0 ? -candidate : candidate;
  }
  const last = roundTo(size, MAX_DIGITS, exponent);
  return value < 0 ? -last : last;
}

/** A number rounded to so many digits; `exponent` is that of its first digit. */
function roundTo(size: number, digits: number, exponent: number): number {
  const shift = digits - 1 - exponent;
  if (shift >= 0 && shift < POWERS.length) return Math.round(size * POWERS[shift]!) / POWERS[shift]!;
  if (shift < 0 && -shift < POWERS.length) return Math.round(size / POWERS[-shift]!) * POWERS[-shift]!;
  return Number(size.toPrecision(digits));
}
