/** Names out of files, on their way into a page. */
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readFacts } from '../../../../src/products/pages/report/sections/facts.js';
import { groupByFolder } from '../../../../src/products/pages/report/page-data.js';
import { renderFailures } from '../../../../src/products/pages/report/sections/sections.js';
import { RowSet } from '../../../../src/base/row-set.js';
import { pathInside } from '../../../../src/products/pages/report/sections/thumbnails.js';

const HOSTILE = ['</script><script>alert(1)</script>.jpg', '<!--<script>', `"'><img src=x onerror=alert(1)>`];

describe('renderFailures', () => {
  it('shows failures of hostile names as text', () => {
    const listed = HOSTILE.map((path) => ({ path, message: path }));
    const { text } = renderFailures({
      ok: 0,
      failed: 9000,
      images: [],
      live: new RowSet(),
      failures: [{ code: '<b>', count: 9000, listed }],
    });
    expect(text).not.toMatch(/<script|<img|<b>|<!--/);
    expect(text).toContain('and 8\u202f997 more');
  });
});

describe('pathInside', () => {
  it.each([
    ['a/b.jpg', 'images/a/b.jpg'],
    ['a/../b.jpg', 'images/b.jpg'],
    ['..b.jpg', 'images/..b.jpg'],
    [resolve('images/c.jpg'), 'images/c.jpg'],
    ['../b.jpg', undefined],
    ['a/../../b.jpg', undefined],
    ['..', undefined],
    ['.', undefined],
    ['', undefined],
    ['/etc/secret.jpg', undefined],
    ['a\0.jpg', undefined],
  ])('of %j is %j', (path, inside) => {
    expect(pathInside('images', path)).toBe(inside === undefined ? undefined : resolve(inside));
  });
});

describe('groupByFolder', () => {
  it('takes the first folder that differs', () => {
    expect(groupByFolder(['/data/set/a/1.jpg', '/data/set/b/x/2.jpg', '/data/set/a/3.jpg'])).toEqual({
      names: ['a', 'b'],
      places: [0, 1, 0],
    });
    expect(groupByFolder(['1.jpg', 'a/2.jpg', null])).toEqual({ names: ['(top)', 'a'], places: [0, 1, 0] });
    expect(groupByFolder([])).toEqual({ names: [], places: [] });
  });

  it('puts the smallest of many together', () => {
    const paths = Array.from(
      { length: 276 },
      (_, i) => `${'abcdefghijklmnopqrstuvwx'[Math.floor(Math.sqrt(2 * i))]}/p.jpg`,
    );
    const { names, places } = groupByFolder(paths);
    expect(names).toEqual([...Array.from('eghijklmnopqrstuvwx'), '(5 others)']);
    expect(places[0]).toBe(19);
  });
});

describe('readFacts', () => {
  it.each([null, 7, 'text', [], {}, { model: null, run: [], request: {}, shards: 'no', transform: 3 }])(
    'takes a manifest that is %j',
    (manifest) => {
      expect(readFacts(manifest)).toMatchObject({
        model: '',
        requests: [],
      });
    },
  );

  it('counts the images of the latest run only', () => {
    const manifest = {
      run: { seconds: 4, device: 'cpu' },
      runs: [{ firstShard: 0 }, { firstShard: 1 }],
      shards: [{ inputs: 100 }, { inputs: 20 }, { inputs: 4 }],
    };
    const speedOf = (given: unknown): unknown =>
      readFacts(given).chapters[0]!.facts.find(([name]) => name === 'images per second')?.[1];
    expect(speedOf(manifest)).toBe('6');
    expect(speedOf({ ...manifest, runs: undefined })).toBe('31');
  });
});
