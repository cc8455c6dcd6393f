import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder } from '../../src/base/make-folder.js';
import { writeCheckpoint } from '../../src/learn/train/runs/checkpoint.js';
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
  for (const [path, reason] of [
    [file, 'it is a file; name a folder'],
    [join(file, 'a/b'), 'ENOTDIR'],
    [join(scratch, '  '), 'its name consists of spaces'],
  ] as const)
    await expect(makeFolder(path)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      details: { path, reason: expect.stringContaining(reason) },
    });
});

it.runIf(process.platform === 'linux')('returns where no folder can be created', async () => {
  await expect(makeFolder('/proc/self/none/deeper')).rejects.toThrow();
  // A second caller of mkdir was missed once.
  await expect(writeCheckpoint('/proc/self/none/x', { tensors: new Map(), facts: {} })).rejects.toMatchObject(
    {
      code: 'OUTPUT_UNWRITABLE',
    },
  );
});
