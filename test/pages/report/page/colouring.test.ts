import { expect, it } from 'vitest';
import { encodeNumbers } from '../../../../src/html/html.js';
import { colourPoints } from '../../../../src/pages/report/page/colouring.js';
import type { PageColumn, PageData } from '../../../../src/pages/report/page/data.js';
import type { Points } from '../../../../src/pages/report/page/points.js';

it('names the clusters that were found by their classes, not a column of that name that somebody gave', () => {
  const column = (name: string, names: readonly string[], places: readonly number[]): PageColumn => ({
    name,
    names,
    places: encodeNumbers(Uint16Array.from(places)),
  });
  const given = column('cluster', ['cat', 'dog'], [1, 0, 0, 1]);
  const found = column('cluster', ['cluster 1', 'cluster 2'], [0, 1, 1]);
  const data = { columns: [given] } as unknown as PageData;
  const points = { count: 3, members: Uint32Array.of(1, 2, 3), columns: [found] } as unknown as Points;
  expect(colourPoints(data, points, given).groups).toEqual([
    { name: 'cat', count: 2 },
    { name: 'dog', count: 1 },
  ]);
  expect(colourPoints(data, points, found).groups).toEqual([
    { name: '1 · cat', count: 1 },
    { name: '2', count: 2 },
  ]);
});
