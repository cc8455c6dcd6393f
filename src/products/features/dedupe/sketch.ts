/**
 * Short rows that bound the cosine of long ones: the first coordinates of a row in an orthonormal basis, and the length of what is left. By
 * Cauchy and Schwarz, the product of two sketches is at least the cosine of their rows.
 */
import { createRandom } from '../../../base/random.js';
import { slackOf } from '../search/metric.js';
import type { Tile } from './tiles.js';

/** A basis, and what its rounding errors add. */
export interface Sketching {
  /** `[size, elements]`: orthonormal. */
  readonly basis: Float32Array;
  readonly size: number;
  /** The largest error of a sketch's coordinates. */
  readonly error: number;
  /** The largest error of a product of two rows of length 1. */
  readonly slack: number;
  /** A product of two sketches below this proves that the cosine of the rows is below the threshold. */
  readonly least: number;
}

/** Sizes that are tried, the smallest first. */
const SIZES = [16, 32, 64, 128];
/** Rows that a basis is made of. */
const SAMPLE = 1024;
/** A size is enough if it leaves at most this share of the pairs of a sample more than twice what the largest one leaves. */
const ENOUGH = 1e-3;

/** Chooses a basis for rows like those of a tile. */
export function chooseSketching(tile: Tile, cosine: number, isOnCpu: boolean): Sketching {
  const { rows, squares, data } = tile;
  const elements = data.length / rows.length;
  const random = createRandom(1);
  const count = Math.min(SAMPLE, rows.length);
  const sample = Array.from({ length: count }, () => {
    const at = Math.floor(random() * rows.length);
    const norm = Math.sqrt(squares[at]!);
    return Float64Array.from(data.subarray(at * elements, (at + 1) * elements), (value) => value / norm);
  });
  const most = Math.min(SIZES.at(-1)!, elements);
  const basis = findBasis(sample, most);
  const describe = (size: number): Sketching => {
    const slack = slackOf(elements, isOnCpu);
    const error = Math.sqrt(size) * slack + 1e-6;
    const least = cosine - 4 * error - 2 * slackOf(size + 1, isOnCpu);
    return { basis: basis.subarray(0, size * elements), size, error, slack, least };
  };
  const places = sample.map((row) =>
    Float64Array.from({ length: most }, (_, c) => dot(row, basis, c * elements)),
  );
  const sizes = SIZES.filter((size) => size < most);
  const shareOf = (size: number): number => shareLeft(places, size, describe(size).least);
  const fewest = shareOf(most);
  const enough = sizes.find((size) => shareOf(size) <= 2 * fewest + ENOUGH);
  return describe(enough ?? most);
}

/** The share of pairs of a sample that a size does not rule out. */
function shareLeft(places: readonly Float64Array[], size: number, least: number): number {
  const rests = places.map((place) => Math.sqrt(Math.max(0, 1 - dot(place.subarray(0, size), place, 0))));
  let left = 0;
  for (let a = 0; a < places.length; a++)
    for (let b = 0; b < a; b++)
      if (dot(places[a]!.subarray(0, size), places[b]!, 0) + rests[a]! * rests[b]! >= least) left++;
  return left / Math.max(1, (places.length * (places.length - 1)) / 2);
}

/** An orthonormal basis of where most of a sample lies: one step of the power method on some of its rows (Halko, Martinsson, Tropp 2011). */
function findBasis(sample: readonly Float64Array[], size: number): Float32Array {
  const { length: elements } = sample[0]!;
  const random = createRandom(2);
  const found: Float64Array[] = [];
  for (let c = 0; c < size; c++) {
    const start = sample[c] ?? Float64Array.from({ length: elements }, () => random() - 0.5);
    const next = new Float64Array(elements);
    for (const row of sample) {
      const weight = dot(row, start, 0);
      for (let i = 0; i < elements; i++) next[i]! += weight * row[i]!;
    }
    found.push(
      orthonormal(next, found) ??
        orthonormal(
          Float64Array.from(next, () => random() - 0.5),
          found,
        )!,
    );
  }
  const basis = new Float32Array(size * elements);
  for (const [c, row] of found.entries()) basis.set(row, c * elements);
  return basis;
}

/** A vector less its parts along others, at length 1; undefined if nothing is left. */
function orthonormal(vector: Float64Array, others: readonly Float64Array[]): Float64Array | undefined {
  const before = Math.sqrt(dot(vector, vector, 0));
  // Twice is enough (Kahan).
  for (let round = 0; round < 2; round++)
    for (const other of others) {
      const weight = dot(vector, other, 0);
      for (let i = 0; i < vector.length; i++) vector[i]! -= weight * other[i]!;
    }
  const norm = Math.sqrt(dot(vector, vector, 0));
  return norm > 1e-6 * before ? vector.map((value) => value / norm) : undefined;
}

/** Writes the sketches of rows, of `size + 1` numbers each, from the products of rows of length 1 with the basis. */
export function writeSketches(
  { size, error }: Sketching,
  products: Float32Array,
  into: Float32Array,
  at: number,
): void {
  for (let row = 0; row * size < products.length; row++) {
    let square = 0;
    const to = (at + row) * (size + 1);
    for (let c = 0; c < size; c++) {
      const value = products[row * size + c]!;
      into[to + c] = value;
      square += value * value;
    }
    into[to + size] = Math.sqrt(Math.max(0, 1 - square) + 3 * error);
  }
}

function dot(a: Float64Array, b: ArrayLike<number>, at: number): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[at + i]!;
  return sum;
}
