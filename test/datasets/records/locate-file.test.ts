import { mkdirSync, mkdtempSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { locateFile, staysInside } from '../../../src/datasets/records/locate-file.js';
import { scratchFolder } from '../../support/fixtures.js';

describe('staysInside', () => {
  it.each(['a', 'a/b.npy', 'features/%2E%2E/x', '…/x', '.hidden'])('takes %s', (path) =>
    expect(staysInside(path)).toBe(true),
  );

  it.each(['', '/a', '../a', 'a/../b', 'a/..', './a', 'a//b', 'a/', 'a\\b', 'c:x', 'a\0b'])(
    'refuses %j',
    (path) => expect(staysInside(path)).toBe(false),
  );
});

describe('locateFile', () => {
  const root = mkdtempSync(join(scratchFolder(), 'locate-'));
  const folder = join(root, 'dataset');
  mkdirSync(join(folder, 'features'), { recursive: true });
  writeFileSync(join(folder, 'features/x'), '');
  writeFileSync(join(root, 'dataset-other'), '');
  symlinkSync(folder, join(root, 'link'));
  symlinkSync('features/x', join(folder, 'inner'));
  symlinkSync('../dataset-other', join(folder, 'outer'));

  it('follows links that stay inside', async () => {
    const place = join(realpathSync(folder), 'features/x');
    for (const start of [folder, join(root, 'link')])
      for (const path of ['features/x', 'inner']) expect(await locateFile(start, path)).toBe(place);
  });

  it.each([
    ['outer', /link that leaves/],
    ['../dataset-other', /path that leaves/],
    ['none', /missing/],
  ])('refuses %s', async (path, message) => {
    await expect(locateFile(folder, path)).rejects.toMatchObject({ code: 'DATASET_INVALID', message });
  });
});
