/** Places on the map, and the way from one to the next. */
import { describe, expect, it } from 'vitest';
import {
  DIRECTIONS,
  fitPoints,
  nearestPoint,
  nextInDirection,
  WHOLE,
  zoomAt,
} from '../../../../../src/products/pages/report/page/geometry.js';
import { formatCosine } from '../../../../../src/products/pages/report/page/points.js';

describe('fitPoints', () => {
  it('keeps the scales equal, y upwards, everything inside', () => {
    expect([...fitPoints(Float32Array.of(0, 0, 4, 2), 100, 100, 10)]).toEqual([10, 70, 90, 30]);
    expect([...fitPoints(Float32Array.of(3, 3, 3, 3), 100, 60, 10)]).toEqual([50, 30, 50, 30]);
    expect([...fitPoints(Float32Array.of(3, 3, 3, 3), 100, 60, 10, 2)]).toEqual([50, 30, 50, 30]);
    // A column of points in a wide frame: twice as wide as with equal scales, not as wide as the frame.
    expect([...fitPoints(Float32Array.of(0, 0, 1, 8), 420, 100, 10)]).toEqual([205, 90, 215, 10]);
    expect([...fitPoints(Float32Array.of(0, 0, 1, 8), 420, 100, 10, 2)]).toEqual([200, 90, 220, 10]);
    expect(fitPoints(new Float32Array(), 10, 10, 1).length).toBe(0);
  });
});

describe('zoomAt', () => {
  it('keeps what is under the pointer there', () => {
    const centre = { x: 50, y: 40 };
    const at = { x: 20, y: 70 };
    const view = zoomAt(zoomAt(WHOLE, 2, at, centre), 1.5, at, centre);
    expect(view.zoom).toBe(3);
    expect(centre.x + (at.x - centre.x) * view.zoom + view.panX).toBeCloseTo(at.x, 9);
    expect(centre.y + (at.y - centre.y) * view.zoom + view.panY).toBeCloseTo(at.y, 9);
    expect(zoomAt(view, 0.1, at, centre)).toEqual(WHOLE);
  });
});

describe('nextInDirection', () => {
  // A plus, and a point far to the right and up.
  const places = Float32Array.of(0, 0, 10, 1, -10, 0, 0, 10, 0, -10, 30, -25);
  it.each([
    ['ArrowRight', 1],
    ['ArrowLeft', 2],
    ['ArrowDown', 3],
    ['ArrowUp', 4],
  ])('of %s is point %i', (key, point) => {
    expect(nextInDirection(places, 0, DIRECTIONS[key]!)).toBe(point);
  });

  it('is undefined at the edge, and takes what lies aside before nothing', () => {
    expect(nextInDirection(places, 2, DIRECTIONS['ArrowLeft']!)).toBeUndefined();
    expect(nextInDirection(places, 3, DIRECTIONS['ArrowRight']!)).toBe(1);
  });

  it('reaches every point, also of several in one place', () => {
    const many = Float32Array.from({ length: 80 }, (_, i) => (i * 7919) % 97);
    many.set(many.subarray(0, 4), 40);
    many.set(many.subarray(0, 2), 42);
    const reached = new Set([0]);
    for (const from of reached)
      for (const direction of Object.values(DIRECTIONS)) {
        const next = nextInDirection(many, from, direction);
        if (next !== undefined) reached.add(next);
      }
    expect(reached.size).toBe(40);
  });
});

describe('nearestPoint', () => {
  it('is the nearest within the radius', () => {
    const places = Float32Array.of(0, 0, 10, 0);
    expect(nearestPoint(places, { x: 6, y: 0 }, 5)).toBe(1);
    expect(nearestPoint(places, { x: 5, y: 9 }, 5)).toBeUndefined();
  });
});

it('a filter leaves points out', () => {
  const places = Float32Array.of(0, 0, 10, 0, 20, 0);
  const among = new Set([0, 2]);
  expect(nearestPoint(places, { x: 9, y: 0 }, Infinity, among)).toBe(0);
  expect(nextInDirection(places, 0, DIRECTIONS['ArrowRight']!, among)).toBe(2);
  expect(nearestPoint(places, { x: 9, y: 0 }, Infinity, new Set())).toBeUndefined();
});

describe('formatCosine', () => {
  it('tells a near-duplicate from a copy', () => {
    expect([0, 0.25, 0.0213, 3e-6, 1e-12, 2].map(formatCosine)).toEqual([
      '1',
      '0.750',
      '0.979',
      '0.9999970',
      '1.000000000',
      '-1.000',
    ]);
  });
});
