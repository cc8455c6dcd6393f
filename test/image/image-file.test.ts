import { execFileSync } from 'node:child_process';
import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../src/image/decode.js';
import { readImageFile, withImagePath } from '../../src/image/image-file.js';
import { TRANSFORM_PRESETS } from '../../src/image/presets.js';
import { fixturePath, scratchFolder } from '../support/fixtures.js';

const folder = scratchFolder();
const photo = fixturePath('preprocess/images/own_444.jpg');

describe('readImageFile', () => {
  it('reads paths and file URLs, and leaves bytes alone', () => {
    const expected = readFileSync(photo);
    expect(expected.equals(readImageFile(photo))).toBe(true);
    expect(expected.equals(readImageFile(pathToFileURL(photo)))).toBe(true);
    expect(readImageFile(expected)).toBe(expected);
    const empty = join(folder, 'empty');
    writeFileSync(empty, '');
    expect(readImageFile(empty)).toHaveLength(0);
  });

  it('refuses what is no file, and files that are too long', () => {
    const long = join(folder, 'long');
    writeFileSync(long, '');
    // Sparse: no space is taken.
    truncateSync(long, 1024 ** 3 + 1);
    for (const [path, code, message] of [
      [join(folder, 'none'), 'IMAGE_NOT_FOUND', /no such file \(ENOENT\); check its path/],
      [join(photo, 'inside.jpg'), 'IMAGE_NOT_FOUND', /ENOTDIR/],
      [folder, 'IMAGE_UNREADABLE', /no regular file|EISDIR|EPERM/],
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
        message: expect.stringMatching(/no regular file/),
      }),
    );
  });

  it('is what decodeImage does', async () => {
    const image = await decodeImage(photo, TRANSFORM_PRESETS.ImageNet1K_V1);
    expect(image).toMatchObject({ reduction: 1, source: { height: image.height, width: image.width } });
  });
});

describe('withImagePath', () => {
  it('hands paths on, and puts bytes into a file that only this user can read, as long as it is needed', async () => {
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
