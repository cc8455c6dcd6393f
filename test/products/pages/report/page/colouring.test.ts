import { expect, it } from 'vitest';
import { encodeNumbers } from '../../../../../src/base/html/html.js';
import { colourPoints } from '../../../../../src/products/pages/report/page/colouring.js';
import type { PageColumn, PageData } from '../../../../../src/products/pages/report/page/data.js';
import type { Points } from '../../../../../src/products/pages/report/page/points.js';

it('colours by dates in steps, as exactly as the steps need', () => {
  const day = 86_400;
  const since = Date.UTC(2024, 1, 28, 12);
  const stepsOf = (seconds: readonly number[]): readonly string[] => {
    const column = { name: 'date of the file', values: encodeNumbers(Float32Array.from(seconds)), since };
    const members = Uint32Array.from(seconds, (_, i) => i);
    const points = { count: seconds.length, members, columns: [] } as unknown as Points;
    const { groups, groupOf } = colourPoints({} as PageData, points, column);
    expect([groupOf[0], groupOf.at(-1)]).toEqual([0, 11]);
    return [groups[0]!.name, groups[11]!.name];
  };
  expect(stepsOf([0, 12 * day, 24 * day])).toEqual(['2024-02-28 to 2024-03-01', '2024-03-21 to 2024-03-23']);
  expect(stepsOf([0, day])).toEqual([
    '2024-02-28 12:00 to 2024-02-28 14:00',
    '2024-02-29 10:00 to 2024-02-29 12:00',
  ]);
  expect(stepsOf([0, 12])).toEqual([
    '2024-02-28 12:00:00 to 2024-02-28 12:00:01',
    '2024-02-28 12:00:11 to 2024-02-28 12:00:12',
  ]);
});

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
