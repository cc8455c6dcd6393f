import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { expandBraces, readPattern } from '../../../../src/datasets/sources/folders/pattern.js';
import { openSource } from '../../../../src/datasets/sources/open-source.js';
import { folderWith, itemsOf, pathsOf } from '../../../support/sources.js';

describe('expandBraces', () => {
  it.each([
    ['a.jpg', ['a.jpg']],
    ['s-{008..011}.tar', ['s-008.tar', 's-009.tar', 's-010.tar', 's-011.tar']],
    ['{3..1}', ['3', '2', '1']],
    ['{9..10}', ['9', '10']],
    ['{a,b}/{x,y}', ['a/x', 'a/y', 'b/x', 'b/y']],
    ['{a,{b,c}d,}', ['a', 'bd', 'cd']],
    ['x{a,{b,c}d,}', ['xa', 'xbd', 'xcd', 'x']],
    ['{a}{b', ['{a}{b']],
    ['{a{b,c}', ['{ab', '{ac']],
    ['\\{a,b}', ['\\{a,b}']],
    ['\\\\{a,b}', ['\\\\a', '\\\\b']],
    ['{a\\,b,\\*}', ['a\\,b', '\\*']],
    ['${a,b}{c,d}', ['${a,b}c', '${a,b}d']],
    ['{a},b}', ['a}', 'b']],
    ['{-1..2}', ['-1', '0', '1', '2']],
    ['{a..c}', ['a', 'b', 'c']],
    ['{000..010..5}', ['000', '005', '010']],
    ['{0099999999999998..0099999999999999}', ['0099999999999998', '0099999999999999']],
  ])('%s', (pattern, expected) => expect(expandBraces(pattern)).toEqual(expected));

  it('expands up to 100,000 names', () => {
    expect(expandBraces('{1..100000}')).toHaveLength(100_000);
    expect(() => expandBraces('{0..100000}')).toThrow('more than 100000 names');
  });

  it.each([
    ['ranges', '{1..999999999999999}'],
    ['combined ranges', '{1..1000}{1..1000}'],
    ['combined lists', '{0,1}'.repeat(60)],
    ['thousands of lists', '{a,b}'.repeat(3000)],
    ['long names', `{1..90000}${'x'.repeat(100_000)}`],
    ['deep lists', `${'{'.repeat(5000)}a,b${'}'.repeat(5000)}`],
    ['deep ranges', `${'{'.repeat(101)}1..9${'}'.repeat(101)}`],
    ['lists in lists', `{{${','.repeat(316)}}{${','.repeat(316)}}}`.repeat(100)],
    ['padding', `{${'0'.repeat(100)}..99999}`.repeat(500)],
    ['nothing', '{,}'],
  ])('refuses a pattern whose braces mean too much or nothing: %s', (_what, pattern) => {
    const started = performance.now();
    expect(() => readPattern(pattern)).toThrow(expect.objectContaining({ code: 'SOURCE_INVALID' }));
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe('a pattern', () => {
  it('finds images in the order of their paths’ bytes, named from its folder on', async () => {
    const folder = folderWith(
      'p/b.jpg',
      'p/a/z.PNG',
      'p/a.jpg',
      'p/é.gif',
      'p/notes.txt',
      'p/.hidden.jpg',
      'q/c.jpg',
    );
    expect(await pathsOf(join(folder, 'p/**'))).toEqual(['a.jpg', 'a/z.PNG', 'b.jpg', 'é.gif']);
    expect(await itemsOf(join(folder, '*/?.jpg'))).toEqual(
      ['p/a.jpg', 'p/b.jpg', 'q/c.jpg'].map((path) => ({ path, image: join(folder, path), listed: true })),
    );
    expect(await pathsOf(join(folder, '{q,p}/[ab]*.jpg'))).toEqual(['p/a.jpg', 'p/b.jpg']);
    expect(await pathsOf(join(folder, 'p/*.txt'))).toEqual(['notes.txt']);
    expect(await pathsOf(join(folder, 'none/*.jpg'))).toEqual([]);
    const location = join(folder, 'p/*.jpg');
    expect(openSource(location).description).toEqual({ kind: 'glob', location });
  });

  it('that only lists names keeps their order, missing ones included', async () => {
    const folder = folderWith('b.jpg', 'a.jpg');
    expect(await pathsOf(join(folder, '{b,none,a}.jpg'))).toEqual(['b.jpg', 'none.jpg', 'a.jpg']);
  });

  it('ends on link loops, counts nothing twice, and follows links to the outside', async () => {
    const folder = folderWith('in/a.jpg');
    const outside = folderWith('b.jpg');
    symlinkSync('..', join(folder, 'in/loop'));
    symlinkSync('in/a.jpg', join(folder, 'again.jpg'));
    symlinkSync(outside, join(folder, 'out'));
    symlinkSync(outside, join(folder, 'out-again'));
    expect(await pathsOf(join(folder, '**/*.jpg'))).toEqual(['in/a.jpg', 'out-again/b.jpg']);
  });

  it('is a path first: a name with such signs is found', async () => {
    const folder = folderWith('a[1]/b.jpg');
    expect(await pathsOf(join(folder, 'a[1]'))).toEqual(['b.jpg']);
  });
});
