/** What becomes of files that are taken away, or shut, between listing and reading; and the stamps of those that are read. */
import { chmodSync, copyFileSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { LoadedItem } from '../../../build/modules/photos/feeds/feed-batches.js';
import { openPhotos } from '../../../build/modules/photos/feeds/open-photos.js';
import { planFeeds } from '../../../build/modules/photos/feeds/plan-feeds.js';
import { listImages } from '../../../build/modules/datasets/sources/folders/list-folder.js';
import type { SourceItem } from '../../../build/modules/photos/feeds/items/source-item.js';
import { DecodeLanes } from '../../../build/modules/photos/images/lanes/decode-lanes.js';
import { createTransform } from '../../../build/modules/index.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runScript } from '../../support/run.js';

const photo = projectPath('examples/photos/sea/sea-0.jpg');

async function load(source: AsyncIterable<SourceItem> | Iterable<SourceItem>): Promise<LoadedItem[]> {
  const transform = createTransform();
  await using lanes = new DecodeLanes(transform, 1);
  const inputs = [{ name: 'x', dtype: 'float32', dims: ['n', 3, 224, 224] }] as const;
  const plan = planFeeds({ inputs, imageNormalization: null }, transform);
  const items: LoadedItem[] = [];
  for await (const batch of openPhotos(source, plan, lanes, { batch: 2, openBatches: 2 })) {
    items.push(...batch.items);
    batch.release();
  }
  return items;
}

describe('a file that was listed', () => {
  it('and is gone when its turn comes has vanished; one that never was there is not found', async () => {
    const folder = scratchFolder();
    for (const name of ['a.jpg', 'b.jpg']) copyFileSync(photo, join(folder, name));
    symlinkSync('nowhere.jpg', join(folder, 'c.jpg'));
    mkdirSync(join(folder, 'd'));
    const source = (async function* () {
      for await (const item of listImages(folder)) {
        // The folder is gone before it is opened.
        rmSync(join(folder, 'd'), { recursive: true, force: true });
        if (item.path === 'b.jpg') rmSync(join(folder, 'b.jpg'));
        yield item;
      }
      yield { path: 'given.jpg', image: join(folder, 'given.jpg') };
    })();
    const items = await load(source);
    expect(items.map(({ path, error }) => [path, error?.code])).toEqual([
      ['a.jpg', undefined],
      ['b.jpg', 'IMAGE_VANISHED'],
      ['c.jpg', 'IMAGE_NOT_FOUND'],
      ['d/', 'IMAGE_VANISHED'],
      ['given.jpg', 'IMAGE_NOT_FOUND'],
    ]);
    expect(items[1]!.error).toMatchObject({
      message: `cannot read ${join(folder, 'b.jpg')}: it was listed, but was gone when it was read; run again to list the files that exist now`,
      cause: { code: 'IMAGE_NOT_FOUND' },
    });
  });
});

describe('stamps', () => {
  it('are of the file as it was read; of an archive’s entry, with the time that the archive knows', async () => {
    const folder = scratchFolder();
    const path = join(folder, 'a.jpg');
    copyFileSync(photo, path);
    const cut = join(folder, 'cut.jpg');
    writeFileSync(cut, 'cut');
    const { size, mtimeMs } = statSync(path);
    const listed = { sizeBytes: 5, modifiedMs: 1234, sha256: null };
    const items = await load([
      { path: 'a.jpg', image: path, stamp: listed },
      { path: 'cut.jpg', image: cut },
      { path: 'entry.jpg', image: () => Promise.resolve(Buffer.from('no image')), stamp: listed },
      { path: 'none.jpg', image: join(folder, 'none.jpg'), stamp: listed },
      { path: 'unknown.jpg', image: join(folder, 'unknown.jpg') },
    ]);
    expect(items.map(({ stamp }) => stamp)).toEqual([
      { sizeBytes: size, modifiedMs: Math.floor(mtimeMs), sha256: null },
      { sizeBytes: 3, modifiedMs: Math.floor(statSync(cut).mtimeMs), sha256: null },
      { sizeBytes: 8, modifiedMs: 1234, sha256: null },
      listed,
      null,
    ]);
  });
});

describe.skipIf(process.platform === 'win32')('a file that this user may not read', () => {
  it('is denied, not missing; so is a folder, also one that loses its permission while it is listed', async () => {
    const folder = scratchFolder();
    chmodSync(folder, 0o777);
    copyFileSync(photo, join(folder, 'open.jpg'));
    copyFileSync(photo, join(folder, 'shut.jpg'));
    mkdirSync(join(folder, 'shut'));
    for (const name of ['shut.jpg', 'shut']) chmodSync(join(folder, name), 0);
    // The superuser may read everything, so it becomes nobody first; whatever is loaded must be there before.
    const script = `
      import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
      import { loadImage } from 'onnx-tapir';
      import { listImages } from ${JSON.stringify(projectPath('build/modules/datasets/sources/folders/list-folder.js'))};
      import { stampOf } from ${JSON.stringify(projectPath('build/modules/photos/images/file/image-file.js'))};
      const folder = ${JSON.stringify(folder)};
      if (process.getuid() === 0) {
        process.setgid(65534);
        process.setuid(65534);
      }
      const codeOf = (promise) => promise.then(() => 'read', ({ code, message }) => code + ': ' + message);
      const list = async (of, onItem = () => undefined) => {
        const listed = [];
        for await (const { path, error } of listImages(of)) {
          listed.push([path, error?.code]);
          onItem(path);
        }
        return listed;
      };
      const own = folder + '/own';
      for (const name of ['/a', '/b']) mkdirSync(own + name, { recursive: true });
      for (const name of ['/a/1.jpg', '/b/1.jpg']) writeFileSync(own + name, '');
      // Before the others: it can be read by this user only until then.
      const lost = await list(own, (path) => path === 'a/1.jpg' && chmodSync(own + '/b', 0));
      chmodSync(own + '/b', 0o700);
      rmSync(own, { recursive: true });
      console.log(JSON.stringify({
        uid: process.getuid(),
        listed: await list(folder),
        lost,
        root: await codeOf(list(folder + '/shut')),
        open: await codeOf(loadImage(folder + '/open.jpg')),
        shut: await codeOf(loadImage(folder + '/shut.jpg')),
        inside: await codeOf(loadImage(folder + '/shut/any.jpg')),
        hashed: await codeOf(stampOf(folder + '/shut.jpg', { checksum: true })),
      }));`;
    const { stdout, stderr, code } = await runScript(script);
    expect([stderr, code]).toEqual(['', 0]);
    const seen = JSON.parse(stdout) as Record<string, unknown>;
    expect(seen['uid']).not.toBe(0);
    expect(seen['open']).toBe('read');
    expect(seen['listed']).toEqual([
      ['open.jpg', null],
      ['shut.jpg', null],
      ['shut/', 'IMAGE_DENIED'],
    ]);
    expect(seen['lost']).toEqual([
      ['a/1.jpg', null],
      ['b/', 'IMAGE_DENIED'],
    ]);
    expect(seen['root']).toMatch(/^SOURCE_INVALID: .*EACCES: permission denied/);
    const advice = 'permission denied (EACCES); give this user read access to it and to the folders above it';
    expect(seen['shut']).toBe(`IMAGE_DENIED: cannot read ${folder}/shut.jpg: ${advice}`);
    expect(seen['inside']).toMatch(/^IMAGE_DENIED/);
    expect(seen['hashed']).toMatch(/^IMAGE_DENIED/);
    for (const name of ['shut.jpg', 'shut']) chmodSync(join(folder, name), 0o700);
  });
});
