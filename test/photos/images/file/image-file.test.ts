import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, readFileSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import {
  readImageFile,
  stampOf,
  withImagePath,
  type StampTaker,
} from '../../../../src/photos/images/file/image-file.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { fixturePath, scratchFolder } from '../../../support/fixtures.js';

const folder = scratchFolder();
const photo = fixturePath('preprocess/images/own_444.jpg');

describe('readImageFile', () => {
  it('reads paths, and leaves bytes alone', () => {
    const expected = readFileSync(photo);
    expect(expected.equals(readImageFile(photo))).toBe(true);
    expect(readImageFile(expected)).toBe(expected);
    const empty = join(folder, 'empty');
    writeFileSync(empty, '');
    expect(readImageFile(empty)).toHaveLength(0);
  });

  it('refuses anything but regular files, and files that are too long', () => {
    const long = join(folder, 'long');
    writeFileSync(long, '');
    // Sparse: it takes no space on disk.
    truncateSync(long, 1024 ** 3 + 1);
    for (const [path, code, message] of [
      [join(folder, 'none'), 'IMAGE_NOT_FOUND', /no such file \(ENOENT\); check its path/],
      [join(photo, 'inside.jpg'), 'IMAGE_NOT_FOUND', /ENOTDIR/],
      [folder, 'IMAGE_UNREADABLE', /it is a folder, which is read alone/],
      [join(folder, 'nul\0'), 'IMAGE_UNREADABLE', /null bytes/],
      [long, 'IMAGE_TOO_LARGE', /has 1073741825 bytes, more than 1073741824/],
    ] as const) {
      expect(() => readImageFile(path)).toThrow(
        expect.objectContaining({ code, message: expect.stringMatching(message) }),
      );
    }
  });

  it.skipIf(process.platform === 'win32')('does not wait for the writer of a pipe', () => {
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    expect(() => readImageFile(pipe)).toThrow(
      expect.objectContaining({
        code: 'IMAGE_UNREADABLE',
        message: expect.stringMatching(/not a regular file/),
      }),
    );
  });

  it('is how decodeImage reads', async () => {
    const image = await decodeImage(photo, TRANSFORM_PRESETS.ImageNet1K_V1);
    expect(image).toMatchObject({ reduction: 1, source: { height: image.height, width: image.width } });
  });
});

describe('the stamp of a file', () => {
  const bytes = readFileSync(photo);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const path = join(folder, 'stamped.jpg');
  copyFileSync(photo, path);
  // Stamps drop fractions of a millisecond.
  utimesSync(path, 1_700_000_000, 1_700_000_000.1237);
  const known = { sizeBytes: bytes.length, modifiedMs: 1_700_000_000_123 };
  const taken = (source: string | Uint8Array, checksum: boolean): StampTaker['stamp'] => {
    const taker: StampTaker = { checksum };
    expect(bytes.equals(readImageFile(source, taker))).toBe(true);
    return taker.stamp;
  };

  it.each([false, true])('is the same during and after reading, with checksum: %s', async (checksum) => {
    const expected = {
      ...known,
      sha256: checksum ? sha256 : null,
      ...(checksum && { digest: sha256.slice(0, 32) }),
    };
    expect(taken(path, checksum)).toEqual(expected);
    // Without reading it, the whole digest alone.
    expect(await stampOf(path, { checksum })).toEqual({ ...known, sha256: expected.sha256 });
    expect(taken(bytes, checksum)).toEqual({ ...expected, modifiedMs: null });
  });

  it('differs after a change of time, size or content', async () => {
    const other = join(folder, 'changed.jpg');
    writeFileSync(other, 'abc');
    utimesSync(other, 2, 2);
    const before = await stampOf(other, { checksum: true });
    writeFileSync(other, 'abd');
    utimesSync(other, 2, 2);
    const after = await stampOf(other, { checksum: true });
    expect({ ...after, sha256: before.sha256 }).toEqual(before);
    expect(after.sha256).not.toBe(before.sha256);
    utimesSync(other, 1, 1);
    expect((await stampOf(other, { checksum: false })).modifiedMs).toBe(1000);
  });

  it('exists for a refused file, without a hash if the file is too long', async () => {
    const long = join(folder, 'long-stamped');
    writeFileSync(long, '');
    truncateSync(long, 1024 ** 3 + 1);
    const taker: StampTaker = { checksum: true };
    expect(() => readImageFile(long, taker)).toThrow(expect.objectContaining({ code: 'IMAGE_TOO_LARGE' }));
    expect(taker.stamp).toMatchObject({ sizeBytes: 1024 ** 3 + 1, sha256: null });
    expect(await stampOf(long, { checksum: true })).toEqual(taker.stamp);
    const none: StampTaker = { checksum: true };
    expect(() => readImageFile(join(folder, 'none'), none)).toThrow();
    expect(none.stamp).toBeUndefined();
  });

  it('hashes files longer than the buffer, and empty files', async () => {
    const large = join(folder, 'large');
    const content = Buffer.alloc(2_500_001, 'tapir');
    writeFileSync(large, content);
    const hashed = createHash('sha256').update(content).digest('hex');
    expect(await stampOf(large, { checksum: true })).toMatchObject({ sizeBytes: 2_500_001, sha256: hashed });
    writeFileSync(large, '');
    const nothing = createHash('sha256').digest('hex');
    expect(await stampOf(large, { checksum: true })).toMatchObject({ sizeBytes: 0, sha256: nothing });
  });

  it.each([false, true])('is an error without a file, with checksum: %s', async (checksum) => {
    await expect(stampOf(join(folder, 'none'), { checksum })).rejects.toMatchObject({
      code: 'IMAGE_NOT_FOUND',
    });
    await expect(stampOf(folder, { checksum })).rejects.toMatchObject({ code: 'IMAGE_UNREADABLE' });
  });
});

describe('withImagePath', () => {
  it('passes paths through, and writes bytes to a temporary file that only this user can read', async () => {
    const bytes = readFileSync(photo);
    expect(await withImagePath(photo, bytes, (path) => Promise.resolve(path))).toBe(photo);
    for (const source of [bytes, join(folder, 'name]')]) {
      const path = await withImagePath(source, bytes, (at) => {
        expect(readFileSync(at).equals(bytes)).toBe(true);
        if (process.platform !== 'win32') expect(statSync(at).mode & 0o077).toBe(0);
        return Promise.resolve(at);
      });
      expect(() => statSync(path)).toThrow(/ENOENT/);
      const failing = withImagePath(source, bytes, (at) => Promise.reject(new Error(at)));
      const left = await failing.then(String, (error: Error) => error.message);
      expect(() => statSync(left)).toThrow(/ENOENT/);
    }
  });
});
