import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder } from '../../src/base/make-folder.js';
import { scratchFolder } from '../support/fixtures.js';

const scratch = scratchFolder();

it('creates a folder and those above it, and accepts one that exists', async () => {
  const path = join(scratch, 'a/b/c');
  await makeFolder(path);
  await makeFolder(path);
  expect(statSync(path).isDirectory()).toBe(true);
});

it('creates the same folder many times at once', async () => {
  const path = join(scratch, 'x/y/z');
  await Promise.all(Array.from({ length: 20 }, () => makeFolder(path)));
  expect(statSync(path).isDirectory()).toBe(true);
});

it('refuses a path through a file, or of a file', async () => {
  const file = join(scratch, 'file');
  writeFileSync(file, '');
  await expect(makeFolder(file)).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeFolder(join(file, 'a/b'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

it.runIf(process.platform === 'linux')('returns where no folder can be created', async () => {
  await expect(makeFolder('/proc/self/none/deeper')).rejects.toThrow();
});
