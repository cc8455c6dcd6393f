import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countInputs } from '../../../src/datasets/sources/count-inputs.js';
import type { EmbedSource } from '../../../src/datasets/sources/open-source.js';
import { SOURCE_DEFAULTS } from '../../../src/photos/feeds/items/source-options.js';
import { fixturePath } from '../../support/fixtures.js';
import { makeTar, makeZip } from '../../support/archives.js';
import { folderWith } from '../../support/sources.js';

const count = (
  source: EmbedSource,
  isCounted?: (path: string | null, position: number) => boolean,
  signal = new AbortController().signal,
): Promise<number | null> => countInputs(source, SOURCE_DEFAULTS, signal, isCounted);

describe('countInputs', () => {
  it('counts folders, lists, zips and arrays; all inputs or some', async () => {
    const folder = folderWith('a.jpg', 'b.jpg', 'sub/c.jpg');
    expect(await count(folder)).toBe(3);
    expect(await count(folder, (path) => path !== 'b.jpg')).toBe(2);
    writeFileSync(join(folder, 'list.txt'), 'x.jpg\n'.repeat(2000));
    expect(await count(join(folder, 'list.txt'), (_, position) => position % 2 === 0)).toBe(1000);
    const entries = [{ name: 'a.jpg', bytes: Buffer.from('x') }];
    writeFileSync(join(folder, 'a.zip'), makeZip(entries));
    expect(await count(join(folder, 'a.zip'))).toBe(1);
    expect(await count(['a.jpg', 'b.jpg'])).toBe(2);
    expect(await count(['a.jpg', 'b.jpg'], () => false)).toBe(0);
  });

  it('does not consume what can be read only once, nor unpack a tar', async () => {
    const iterator = ['a.jpg'].values();
    expect(await count(iterator)).toBeNull();
    expect(iterator.next().value).toBe('a.jpg');
    const folder = folderWith();
    writeFileSync(join(folder, 'a.tar'), await makeTar([]));
    expect(await count(join(folder, 'a.tar'))).toBeNull();
  });

  it('asks the index of Parquet files, and reads their photos for nothing less than a run', async () => {
    const photos = fixturePath('tables/photos.parquet');
    expect(await count(photos)).toBe(5);
    expect(await count(photos.replace('photos', 'phot*'))).toBe(5);
    expect(await count(photos, () => true)).toBeNull();
    expect(await count(fixturePath('tables/outcomes.parquet'), (path) => path !== 'a.jpg')).toBe(2);
  });

  it('ends when the run does, and throws what the source throws', async () => {
    const folder = folderWith('a.jpg', 'b.jpg');
    expect(await count(folder, undefined, AbortSignal.abort())).toBeNull();
    await expect(count(join(folder, 'none'))).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
  });
});
