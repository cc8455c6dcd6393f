/** Rows times weights in a session, against plain loops in double precision. */
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import {
  distanceGraph,
  gramGraph,
  pairGraph,
  queryGraph,
  scoreGraph,
} from '../../../src/products/linear/row-graphs.js';
import { openRowSession, rowsTensor, vectorTensor } from '../../../src/products/linear/row-session.js';

const [ROWS, QUERIES, ELEMENTS] = [7, 3, 5];
const random = createRandom(1);
const values = (count: number): Float32Array => Float32Array.from({ length: count }, () => random() - 0.5);
const rows = values(ROWS * ELEMENTS);
const queries = values(QUERIES * ELEMENTS);
const wide = Float64Array.from(queries);

/** `[A, B]`: the products of all rows of two matrices. */
function productsOf(a: Float32Array, b: Float32Array): number[] {
  const rowsIn = (of: Float32Array): Float32Array[] =>
    Array.from({ length: of.length / ELEMENTS }, (_, i) => of.subarray(i * ELEMENTS, (i + 1) * ELEMENTS));
  return rowsIn(a).flatMap((one) =>
    rowsIn(b).map((other) => one.reduce((sum, value, k) => sum + value * other[k]!, 0)),
  );
}

function expectClose(actual: ArrayLike<number>, expected: readonly number[], tolerance: number): void {
  expect(actual.length).toBe(expected.length);
  expected.forEach((value, i) => expect(Math.abs(actual[i]! - value)).toBeLessThan(tolerance));
}

const OPTIONS = { signal: undefined };
const squares = Array.from({ length: ROWS }, (_, i) => productsOf(rows, rows)[i * ROWS + i]!);

describe('openRowSession', () => {
  it('compares rows with queries in float32, and rows with rows', async () => {
    await using session = await openRowSession(queryGraph(queries, ELEMENTS), OPTIONS);
    expect(session.isOnCpu).toBe(true);
    const scores = await session.run({ rows: rowsTensor(rows, ELEMENTS) });
    expectClose(scores.dots, productsOf(rows, queries), 1e-6);
    expectClose(scores.squares, squares, 1e-6);
    await using pairs = await openRowSession(pairGraph(ELEMENTS), OPTIONS);
    const feeds = { left: rowsTensor(rows, ELEMENTS), right: rowsTensor(queries, ELEMENTS) };
    const { dots, most } = await pairs.run(feeds);
    expectClose(dots, productsOf(rows, queries), 1e-6);
    expectClose(most, Array.from(most, (_, i) => Math.max(...dots.subarray(i * QUERIES, (i + 1) * QUERIES))), 1e-9); // prettier-ignore
  });

  it('computes scores, distances and products in double precision', async () => {
    await using scoring = await openRowSession(scoreGraph(ELEMENTS), OPTIONS);
    const bias = Float64Array.of(1, -2, 0.5);
    const fed = { rows: rowsTensor(rows, ELEMENTS), weight: rowsTensor(wide, ELEMENTS) };
    const { scores } = await scoring.run({ ...fed, bias: vectorTensor(bias) });
    const products = productsOf(rows, queries);
    expectClose(scores, products.map((value, i) => value + bias[i % QUERIES]!), 1e-14); // prettier-ignore
    await using measuring = await openRowSession(distanceGraph(ELEMENTS), OPTIONS);
    const { distances } = await measuring.run({ rows: rowsTensor(rows, ELEMENTS), queries: fed.weight });
    expectClose(distances, productsOf(queries, rows).map((value, i) => squares[i % ROWS]! - 2 * value), 1e-14); // prettier-ignore
    await using multiplying = await openRowSession(gramGraph(), OPTIONS);
    const all = await multiplying.run({ rows: rowsTensor(Float64Array.from(rows), ELEMENTS) });
    expectClose(all.products, productsOf(rows, rows), 1e-14);
  });
});
