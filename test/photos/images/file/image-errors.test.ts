/** Errors of single images. That real files end in them: image-file.test.ts, ../formats/headers.test.ts. */
import { describe, expect, it } from 'vitest';
import { fileError, tooLongFile, unavailableImage } from '../../../../src/photos/images/file/image-errors.js';

const systemError = (code: string): Error => Object.assign(new Error(`${code}: failed`), { code });

describe('fileError', () => {
  it.each([
    ['ENOENT', 'IMAGE_NOT_FOUND', 'cannot read a.jpg: there is no such file (ENOENT); check its path'],
    ['ENOTDIR', 'IMAGE_NOT_FOUND', 'cannot read a.jpg: there is no such file (ENOTDIR); check its path'],
    [
      'EACCES',
      'IMAGE_DENIED',
      'cannot read a.jpg: permission denied (EACCES); give this user read access to it and to the folders above it',
    ],
    ['EIO', 'IMAGE_UNREADABLE', 'cannot read a.jpg: EIO: failed'],
  ])('of %s is %s', (system, code, message) => {
    const cause = systemError(system);
    expect(fileError('a.jpg', cause)).toMatchObject({ code, message, cause, details: { source: 'a.jpg' } });
  });

  it('takes anything that was thrown', () => {
    for (const thrown of [null, undefined, 'text', 7])
      expect(fileError('a.jpg', thrown)).toMatchObject({ code: 'IMAGE_UNREADABLE' });
  });
});

describe('unavailableImage', () => {
  it('does not blame an image if no file can be opened', () => {
    const cause = systemError('EMFILE');
    const limit = expect.objectContaining({ code: 'TOO_MANY_OPEN_FILES' });
    expect(() => unavailableImage('IMAGE_NOT_FOUND', 'a', 'b', { cause })).toThrow(limit);
    expect(unavailableImage('IMAGE_EMPTY', 'a', 'b')).not.toHaveProperty('cause');
  });
});

describe('tooLongFile', () => {
  it('gives the size if it is known', () => {
    const details = { source: 'a.jpg', limitBytes: 5 };
    expect(tooLongFile('a.jpg', 5, 6)).toMatchObject({
      message: 'a.jpg is refused: it has 6 bytes, more than 5; store a smaller copy of it',
      details,
    });
    expect(tooLongFile('a.jpg', 5)).toMatchObject({
      message: 'a.jpg is refused: it has more than 5 bytes; store a smaller copy of it',
      details,
    });
  });
});
