import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { identifyProcess } from '../../src/base/process-identity.js';
import { removeStaleFolders, TemporaryFolder } from '../../src/base/temporary-folder.js';
import { scratchFolder } from '../support/fixtures.js';

const place = scratchFolder();
afterAll(() => vi.unstubAllEnvs());
vi.stubEnv('TMPDIR', place);

it('is removed at the end of its scope, with its files', async () => {
  let path: string;
  {
    await using folder = await TemporaryFolder.create();
    ({ path } = folder);
    expect(readFileSync(await folder.write('a', 'text'), 'utf8')).toBe('text');
  }
  expect(existsSync(path)).toBe(false);
});

it('is removed later if its process was killed, and only then', async () => {
  const self = await identifyProcess();
  const leave = (name: string, owner: string): void => {
    mkdirSync(join(place, name));
    writeFileSync(join(place, name, 'owner.json'), owner);
    writeFileSync(join(place, name, 'picture.tif'), 'pixels');
  };
  leave('tapir-temporary-dead', JSON.stringify({ ...self, started: '1', pid: 2 ** 22 + 1 }));
  leave('tapir-temporary-elsewhere', JSON.stringify({ ...self, host: 'elsewhere' }));
  leave('tapir-temporary-alive', JSON.stringify(self));
  leave('tapir-temporary-damaged', '{');
  leave('other', JSON.stringify({ ...self, started: '1', pid: 2 ** 22 + 1 }));
  mkdirSync(join(place, 'tapir-temporary-new'));
  await removeStaleFolders();
  const kept = [
    'other',
    ...['alive', 'damaged', 'elsewhere', 'new'].map((name) => `tapir-temporary-${name}`),
  ];
  expect(readdirSync(place)).toEqual(kept);
});

it('names the folder of temporary files if it cannot be made', async () => {
  vi.stubEnv('TMPDIR', join(place, 'nowhere'));
  await expect(TemporaryFolder.create()).rejects.toMatchObject({
    code: 'OUTPUT_UNWRITABLE',
    details: { path: join(place, 'nowhere') },
    message: expect.stringMatching(/ENOENT.*TMPDIR/),
  });
});
