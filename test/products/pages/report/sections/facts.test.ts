import { expect, it } from 'vitest';
import { readFacts } from '../../../../../src/products/pages/report/sections/facts.js';

const factsOf = (againstFloat32: unknown): unknown =>
  readFacts({ run: { precision: 'bfloat16', againstFloat32 } }).chapters;

it('shows the comparison with float32, if the manifest has a whole one', () => {
  const cosine = { f: { least: 0.99939, mean: 1 }, g: { least: 1, mean: 1 } };
  const precision = ['precision', 'bfloat16'];
  expect(factsOf({ images: 16, cosine })).toEqual([
    {
      title: 'Run',
      facts: [precision, ['against float32', '16 images: cosine ≥ 0.9993 (f), ≥ 1.0000 (g)']],
    },
  ]);
  for (const damaged of [
    null,
    undefined,
    3,
    {},
    { images: 16 },
    { images: 'x', cosine },
    { images: 1, cosine: 2 },
  ])
    expect(factsOf(damaged)).toEqual([{ title: 'Run', facts: [precision] }]);
});

it.each([
  ['folder', '/photos', '/photos'],
  ['list', '/photos/list.csv', '/photos'],
  ['glob', '/photos/*/{a,b}.jpg', '/photos'],
  ['glob', '/{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}/*', undefined],
  ['table', '/photos', undefined],
  ['stream', '', undefined],
])('finds the photos of a %s %s in %s', (kind, location, folder) => {
  expect(readFacts({ source: { kind, location } }).imageFolder).toBe(folder);
});
