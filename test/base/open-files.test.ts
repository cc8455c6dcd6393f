import { describe, expect, it } from 'vitest';
import { TapirError } from '../../src/base/errors.js';
import { checkOpenFiles, tooManyOpenFiles } from '../../src/base/open-files.js';

describe('tooManyOpenFiles', () => {
  it.each([
    [
      'EMFILE',
      Object.assign(new Error('EMFILE: too many open files, open "a"'), { code: 'EMFILE' }),
      'ulimit -n',
    ],
    ['ENFILE', Object.assign(new Error('file table overflow'), { code: 'ENFILE' }), 'fs.file-max'],
    ['EMFILE', new Error('Worker initialization failure: EMFILE'), 'ulimit -n'],
  ] as const)('recognises %s, and says what to do', (code, cause, advice) => {
    const error = tooManyOpenFiles(cause);
    expect(error).toMatchObject({ code: 'TOO_MANY_OPEN_FILES', details: { code }, cause });
    expect(error?.message).toContain(advice);
    expect(() => checkOpenFiles(cause)).toThrow(advice);
  });

  it('leaves other errors alone', () => {
    const typed = new TapirError('MODEL_CHANGED', 'EMFILE', { details: { source: 'a' } });
    for (const error of [new Error('ENOENT'), new Error('xEMFILEx'), typed, 'EMFILE', null, undefined]) {
      expect(tooManyOpenFiles(error)).toBeUndefined();
      checkOpenFiles(error);
    }
  });
});
