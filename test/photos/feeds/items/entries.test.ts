import { isAbsolute } from 'node:path';
import { describe, expect, it } from 'vitest';
import { itemOfEntry } from '../../../../src/photos/feeds/items/entries.js';
import { SOURCE_DEFAULTS } from '../../../../src/photos/feeds/items/source-options.js';

const plan = { ...SOURCE_DEFAULTS, base: '/data' };

describe('itemOfEntry', () => {
  it.each([
    ['a.jpg', '/data', '/data/a.jpg'],
    ['a.jpg', '', 'a.jpg'],
    ['/b/a.jpg', '/data', '/b/a.jpg'],
    // Not normalised: x may be a link.
    ['x/../a.jpg', '/data', '/data/x/../a.jpg'],
    ['file:a.jpg', '/data', '/data/file:a.jpg'],
  ])('%s in "%s" is %s', (path, base, image) => {
    expect(itemOfEntry(path, { ...plan, base })).toEqual({ path, image });
    expect(isAbsolute(image)).toBe(base !== '');
  });

  it('makes an item of a URL only with allowHttp, and names no secret', () => {
    const url = 'https://user:secret@host/a.jpg?signature=1';
    expect(() => itemOfEntry(url, plan)).toThrow(/allowHttp.*https:\/\/host\/a\.jpg, got false$/);
    const { path, image } = itemOfEntry(url, { ...plan, allowHttp: true });
    expect(path).toBe('https://host/a.jpg');
    expect(image).toBeTypeOf('function');
    const name = (rule: 'url' | 'path') => itemOfEntry(url, { ...plan, allowHttp: true, name: rule }).path;
    expect([name('url'), name('path')]).toEqual(['https://host/a.jpg', 'a.jpg']);
  });

  it('names no secret of other URLs either', () => {
    const { path, image, error } = itemOfEntry('s3://key:secret@b/a.jpg?sig=secret', plan);
    expect([path, image, error!.code]).toEqual(['s3://b/a.jpg', '', 'IMAGE_NOT_FOUND']);
    expect(JSON.stringify([error!.message, error!.details])).not.toContain('secret');
  });

  it('makes a URL a row that says what allows it, where images come one by one', () => {
    const item = itemOfEntry('https://user:secret@host/a.jpg?sig=1', { ...plan, isUrlRow: true });
    expect(item).toMatchObject({ path: 'https://host/a.jpg', error: { code: 'IMAGE_DENIED' } });
    expect(item.error!.message).toBe(
      'cannot read https://host/a.jpg: it is a URL, which is not fetched; allow it with --allow-http (in Python: flags=["--allow-http"])',
    );
  });
});
