import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { liesInside } from '../../../src/base/files/lies-inside.js';

it.each([
  ['/a', '/a', true],
  ['/a', '/a/b/c', true],
  ['/a', '/a/..b', true],
  ['/a', '/a/b/../../a/c', true],
  ['/', '/a', true],
  ['/a', '/ab', false],
  ['/a', '/', false],
  ['/a', '/a/..', false],
  ['/a', '/a/../b', false],
  ['/a/b', '/a/c', false],
])('liesInside(%j, %j) is %j', (folder, path, expected) => {
  expect(liesInside(resolve(folder), resolve(path))).toBe(expected);
});
