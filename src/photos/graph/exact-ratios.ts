/**
 * The weights of bilinear and bicubic as ratios of whole numbers, for runtimes that compute float64 in float32. Numbers are written in digits of 10
 * bits, from -512 to 512, along the last axis of float32 tensors: all products and sums are whole numbers below 2^24, which no order of adding and no
 * fusing changes (docs/decisions/065-pixels-in-the-file.md).
 */
import type { Formula, Name } from './formula.js';

/** Filters that are polynomials. */
export type RationalFilter = 'bilinear' | 'bicubic';

/** Where weights are asked for. */
export interface RatioGrid {
  readonly inSize: Name;
  readonly outSize: Name;
  /** `[blocks, positions, 1]` int64 */
  readonly positions: Name;
  /** `[blocks, 1, window]` int64 */
  readonly pixels: Name;
}

const BASE = 2 ** 10;
/** Digits of numbers below 2^17, and of their products and sums. */
const SHORT = 2;
const LONG = 6;
/** Bits of the quotient that the last steps of a division give; the first one gives the others. */
const STEP_BITS = [7, 7] as const;
/** What the last steps multiply a quotient by. */
export const STEPS: number = 2 ** STEP_BITS.reduce((sum, bits) => sum + bits, 0);

/** Whether the runtime computes float64 in float32. */
export function isCoarse(g: Formula, size: Name): Name {
  const exact = g.cast(size, 'float64');
  return g.op('Equal', [g.add(g.mul(exact, g.float64(2 ** -40)), exact), exact]);
}

/**
 * Weights, rounded: float32.
 *
 * @param first - One as a weight, over {@link STEPS}: float32, at most 2^8.
 */
export function exactWeights(g: Formula, filter: RationalFilter, grid: RatioGrid, first: Name): Name {
  const { inSize, outSize, pixels } = grid;
  const whole = (name: Name): Name => g.cast(name, 'int32');
  const odd = (name: Name): Name => g.add(g.mul(whole(name), g.int32(2)), g.int32(1));
  const distance = g.op('Abs', [
    g.sub(g.mul(odd(pixels), whole(outSize)), g.mul(odd(grid.positions), whole(inSize))),
  ]);
  const unit = g.mul(whole(g.max(inSize, outSize)), g.int32(2));
  const limit = filter === 'bilinear' ? unit : g.mul(unit, g.int32(2));
  const [n, one] = [g.cast(g.min(distance, limit), 'float32'), g.cast(unit, 'float32')];
  const isInside = g.cast(g.op('Less', [pixels, inSize]), 'float32');
  const slope = g.mul(g.sub(one, n), isInside);
  const parts = filter === 'bilinear' ? digitsOf(g, slope, LONG) : cubicParts(g, n, one, slope);
  const sum = carried(g, carried(g, g.op('ReduceSum', [parts, g.int([-2])], { keepdims: 1 }), LONG), LONG);
  return divide(g, parts, sum, first);
}

/** `(1 - x)(2 + 2x - 3x²)` below 1 and `(1 - x)(2 - x)²` from there on, times the cube of one: in both, the first factor is the same. */
function cubicParts(g: Formula, n: Name, one: Name, slope: Name): Name {
  const isNear = g.op('Less', [n, one]);
  const twice = g.mul(one, g.float32(2));
  const rest = g.sub(twice, n);
  const short = (value: Name): Name => digitsOf(g, value, SHORT);
  const factor = g.where(isNear, twice, rest);
  const other = g.where(isNear, g.add(one, n), rest);
  const taken = g.where(isNear, g.mul(n, g.float32(3)), g.float32(0));
  const product = product2(g, short(factor), short(other), [SHORT, SHORT]);
  const square = carried(g, g.sub(product, product2(g, short(taken), short(n), [SHORT, SHORT])), LONG);
  return carried(g, product2(g, square, short(slope), [LONG, SHORT]), LONG);
}

/** A whole number as digits. */
function digitsOf(g: Formula, value: Name, count: number): Name {
  return carried(g, g.mul(g.unsqueeze(value, [-1]), g.float32([1, ...zeros(count - 1)])), count);
}

function zeros(count: number): number[] {
  return Array.from({ length: count }, () => 0);
}

/** Moves what exceeds a digit to the next one. The last digit takes all. Below 2^20, one time leaves at most 1,536 in each, which the others allow for. */
function carried(g: Formula, digits: Name, count: number): Name {
  const shares = g.float32([...zeros(count - 1).map(() => 1 / BASE), 0]);
  const moves = matrix(g, count, count, (from, to) =>
    from === count - 1 || to < from || to > from + 1 ? 0 : to === from ? -BASE : 1,
  );
  const carry = g.op('Round', [g.mul(digits, shares)]);
  return g.add(digits, g.op('MatMul', [carry, moves]));
}

/** The product of numbers of so many digits, before carrying: {@link LONG} digits. */
function product2(g: Formula, a: Name, b: Name, [first, second]: readonly [number, number]): Name {
  const pairs = g.mul(g.unsqueeze(a, [-1]), g.unsqueeze(b, [-2]));
  const sums = matrix(g, first * second, LONG, (pair, to) =>
    Math.trunc(pair / second) + (pair % second) === to ? 1 : 0,
  );
  return g.op('MatMul', [g.op('Reshape', [pairs, g.int([0, 0, -1, first * second])]), sums]);
}

function matrix(
  g: Formula,
  rows: number,
  columns: number,
  at: (row: number, column: number) => number,
): Name {
  const elements = Float32Array.from({ length: rows * columns }, (_, i) =>
    at(Math.trunc(i / columns), i % columns),
  );
  return g.matrix(rows, columns, elements);
}

/**
 * The rounded quotient, by long division. A step estimates a part of it from the numbers as floats; the remainder, which may be negative, tells the
 * next step how far that was off.
 */
function divide(g: Formula, parts: Name, sum: Name, first: Name): Name {
  const powers = matrix(g, LONG, 1, (row) => BASE ** row);
  const asFloat = (digits: Name): Name => g.op('MatMul', [digits, powers]);
  const divisor = asFloat(sum);
  let quotient = g.float32(0);
  let rest = parts;
  for (const factor of [first, ...STEP_BITS.map((bits) => g.float32(2 ** bits))]) {
    const scaled = g.mul(rest, factor);
    const digit = g.op('Round', [g.div(asFloat(scaled), divisor)]);
    rest = carried(g, g.sub(scaled, g.mul(digit, sum)), LONG);
    quotient = g.add(g.mul(quotient, factor), digit);
  }
  const twice = g.mul(rest, g.float32(2));
  const above = asFloat(carried(g, g.sub(twice, sum), LONG));
  const below = asFloat(carried(g, g.add(twice, sum), LONG));
  const isMore = g.cast(g.op('GreaterOrEqual', [above, g.float32(0)]), 'float32');
  const isLess = g.cast(g.op('Less', [below, g.float32(0)]), 'float32');
  return g.op('Squeeze', [g.sub(g.add(quotient, isMore), isLess), g.int([-1])]);
}
