import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SharedFile } from '../../../src/base/files/shared-file.js';
import {
  listZipEntries,
  locateZipEntry,
  readZipEntry,
  streamZipEntry,
  type ZipEntry,
} from '../../../src/base/files/zip-file.js';
import { makeZip, type ZippedFile } from '../../support/archives.js';
import { scratchFolder } from '../../support/fixtures.js';

const folder = scratchFolder();
let count = 0;

async function open(
  files: readonly ZippedFile[],
  change: (bytes: Buffer) => Buffer = (bytes) => bytes,
): Promise<{ file: SharedFile; entries: ZipEntry[] }> {
  const path = join(folder, `${count++}.zip`);
  writeFileSync(path, change(makeZip(files)));
  const file = new SharedFile(path);
  const entries: ZipEntry[] = [];
  for await (const entry of listZipEntries(file)) entries.push(entry);
  return { file, entries };
}

async function streamed(file: SharedFile, entry: ZipEntry): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of streamZipEntry(file, entry)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const large = Buffer.from(Uint32Array.from({ length: 900_000 }, (_, i) => (i * 2654435761) % 1000).buffer);

describe('an entry', () => {
  it.each([false, true])('is read whole or in chunks, at any position (deflated: %s)', async (isDeflated) => {
    const { file, entries } = await open([
      { name: 'a/data.pkl', bytes: Buffer.from('first'), isDeflated },
      { name: 'a/data/0', bytes: large, isDeflated },
      { name: 'a/empty', bytes: Buffer.alloc(0), isDeflated },
    ]);
    expect(entries.map(({ name, sizeBytes }) => [name, sizeBytes])).toEqual([
      ['a/data.pkl', 5],
      ['a/data/0', large.length],
      ['a/empty', 0],
    ]);
    for (const [i, bytes] of [Buffer.from('first'), large, Buffer.alloc(0)].entries()) {
      expect(bytes.equals(await readZipEntry(file, entries[i]!))).toBe(true);
      expect(bytes.equals(await streamed(file, entries[i]!))).toBe(true);
    }
  });

  it('has its bytes at its position if it is stored', async () => {
    const { file, entries } = await open([
      { name: 'x', bytes: Buffer.from('xx') },
      { name: 'y', bytes: large },
    ]);
    const start = await locateZipEntry(file, entries[1]!);
    expect(entries[1]).toMatchObject({ isStored: true, packedBytes: large.length });
    expect(large.subarray(1000, 1100).equals(await file.read(start + 1000, 100))).toBe(true);
  });

  const text = Buffer.from('a text that is repeated, a text that is repeated');
  it.each<[string, Omit<ZippedFile, 'name'>, RegExp]>([
    ['a bomb', { bytes: Buffer.alloc(2 ** 24), isDeflated: true, statedBytes: 1000 }, /more than the 1000/],
    ['too short', { bytes: text, isDeflated: true, statedBytes: 1000 }, /has 48 bytes instead of the 1000/],
    ['of another checksum', { bytes: text, statedCrc: 7 }, /checksum/],
    ['not deflated data', { bytes: Buffer.alloc(50, 0xff), method: 8 }, /invalid/],
    ['encrypted', { bytes: text, isEncrypted: true }, /encrypted/],
    ['packed otherwise', { bytes: text, method: 14 }, /method 14/],
  ])('is refused in both ways if it is %s', async (_what, stated, reason) => {
    const { file, entries } = await open([{ name: 'a', ...stated }]);
    await expect(readZipEntry(file, entries[0]!)).rejects.toThrow(reason);
    await expect(streamed(file, entries[0]!)).rejects.toThrow(reason);
  });

  it('is refused if there is no entry at its position', async () => {
    const { file, entries } = await open([{ name: 'a', bytes: text, isDeflated: true }], (bytes) =>
      bytes.fill(0, 0, 4),
    );
    await expect(readZipEntry(file, entries[0]!)).rejects.toThrow(/no entry at byte 0/);
    await expect(streamed(file, entries[0]!)).rejects.toThrow(/no entry at byte 0/);
  });
});

it('refuses a directory that is longer than it says', async () => {
  const path = join(folder, 'more.zip');
  writeFileSync(
    path,
    makeZip(
      [
        { name: 'a', bytes: large },
        { name: 'b', bytes: large },
      ],
      1,
    ),
  );
  const listed = async (): Promise<void> => {
    for await (const entry of listZipEntries(new SharedFile(path))) expect(entry.name).toBe('a');
  };
  await expect(listed()).rejects.toThrow('more entries than the 1');
});
