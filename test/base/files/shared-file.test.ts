import { appendFileSync, existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { SharedFile } from '../../../src/base/files/shared-file.js';
import { scratchFolder } from '../../support/fixtures.js';

const folder = scratchFolder();
function make(name: string): string {
  const path = join(folder, name);
  writeFileSync(path, '0123456789');
  return path;
}

it('reads ranges, fewer bytes at the end, none after it', async () => {
  const file = new SharedFile(make('a'));
  expect((await file.read(2, 3)).toString()).toBe('234');
  expect((await file.read(8, 5)).toString()).toBe('89');
  expect(await file.read(20, 5)).toHaveLength(0);
  // Each read has its own memory.
  const [one, two] = await Promise.all([file.read(0, 2), file.read(0, 2)]);
  expect(one.buffer).not.toBe(two.buffer);
});

it('is one open file while it is held: a file that takes its name meanwhile is not read', async () => {
  const path = make('b');
  const file = new SharedFile(path);
  await file.acquire();
  renameSync(path, `${path}-old`);
  writeFileSync(path, 'another one');
  expect((await file.read(0, 3)).toString()).toBe('012');
  await file.release();
  expect((await file.read(0, 3)).toString()).toBe('ano');
});

it.runIf(existsSync('/proc/self/fd'))('is closed after its last holder, also if a step fails', async () => {
  const path = make('c');
  const file = new SharedFile(path);
  const open = (): number => readdirSync('/proc/self/fd').length;
  const before = open();
  const failing = file.hold(() => Promise.reject(new Error('no')));
  await Promise.all([file.read(0, 1), file.read(1, 1), expect(failing).rejects.toThrow('no')]);
  expect(open()).toBe(before);
});

it('can be tried again after it could not be opened', async () => {
  const path = join(folder, 'd');
  const file = new SharedFile(path);
  await expect(file.read(0, 1)).rejects.toThrow('ENOENT');
  appendFileSync(path, 'x');
  expect((await file.read(0, 1)).toString()).toBe('x');
});

it('reads 2 GiB and more in several calls: in one, Node.js would abort', async () => {
  const file = new SharedFile(make('large'));
  const read = vi.fn((_bytes: Buffer, _at: number, length: number, _from: number) =>
    Promise.resolve({ bytesRead: length }),
  );
  // Reads nothing, so that the memory is only reserved.
  vi.spyOn(file, 'hold').mockImplementation((step) => step({ read } as unknown as FileHandle));
  expect(await file.read(10, 2 ** 31 + 5)).toHaveLength(2 ** 31 + 5);
  expect(read.mock.calls.map(([, at, length, from]) => [at, length, from])).toEqual([
    [0, 2 ** 30, 10],
    [2 ** 30, 2 ** 30, 10 + 2 ** 30],
    [2 ** 31, 5, 10 + 2 ** 31],
  ]);
});
