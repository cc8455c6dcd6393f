/** Labels of a dataset whose photos have several rows. */
import { expect, it } from 'vitest';
import { openDataset } from '../../../src/datasets/files/dataset.js';
import { readLabels } from '../../../src/datasets/labels/labels.js';
import { storeDataset } from '../../support/stored-dataset.js';

it.each([1, 5])('labels of unknown paths are counted, with %i rows a photo', async (parts) => {
  const paths = ['a.jpg', 'b.jpg', 'c.jpg'].flatMap((path) => Array<string>(parts).fill(path));
  const inputs = paths.map((path, row) => ({ path, row }));
  const dataset = storeDataset({ key: 'f', rows: paths.map(() => [0]), inputs }, openDataset);
  const labels = new Map([
    ['a.jpg', 'x'],
    ['b.jpg', 'y'],
    ['c.jpg', 'x'],
    ['d.jpg', 'x'],
    ['e.jpg', 'y'],
  ]);
  const { ofRow, warnings } = await readLabels(dataset, labels);
  expect([...ofRow]).toEqual([0, 1, 0].flatMap((label) => Array<number>(parts).fill(label)));
  expect(warnings).toEqual([
    '2 labels for paths that the dataset does not have: "d.jpg", "e.jpg" (it has "a.jpg")',
  ]);
});
