import { expect, it } from 'vitest';
import { describeNearest, nearestNames } from '../../src/base/nearest-names.js';

it('ranks by edits, then by the same last part', () => {
  expect(nearestNames('layer5', ['layer4', 'fc', 'layer4.0', 'blocks.layer5'])).toEqual([
    'layer4',
    'blocks.layer5',
  ]);
});

it('counts insertions, deletions and replacements, up to a third of the request', () => {
  expect(nearestNames('kitten', ['sitten', 'kittens', 'kite', 'sitting', 'mitt'])).toEqual([
    'sitten',
    'kittens',
    'kite',
  ]);
});

it('finds names in the request, or that it is in, where nothing else is near', () => {
  expect(nearestNames('avgpol', ['fc', 'pool', 'conv1'])).toEqual(['pool']);
  expect(nearestNames('pool', ['fc', 'global_pool_2', 'conv1'])).toEqual(['global_pool_2']);
  expect(nearestNames('fc', ['abcfcx'])).toEqual([]);
  expect(nearestNames('pool'.repeat(100_000), ['pool'])).toEqual([]);
});

it('words them', () => {
  expect([[], ['a'], ['a', 'b']].map(describeNearest)).toEqual([
    '',
    '; nearest is "a"',
    '; nearest are "a", "b"',
  ]);
});

it('ignores case, repetitions and very long names', () => {
  expect(nearestNames('Layer4', ['layer4', 'layer4', `layer4${' '.repeat(200)}`])).toEqual(['layer4']);
});

it('gives five names at most, and the shorter one of two equally near', () => {
  const names = ['abcdefgh', 'abcd', 'abc1', 'abc12', 'abc2', 'abc3', 'abc4', 'abc5'];
  expect(nearestNames('abc', names)).toEqual(['abcd', 'abc1', 'abc2', 'abc3', 'abc4']);
});
