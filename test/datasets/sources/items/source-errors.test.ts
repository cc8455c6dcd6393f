import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import {
  asInvalidSource,
  invalidSource,
  missingColumn,
} from '../../../../src/datasets/sources/items/source-errors.js';

describe('the errors of sources', () => {
  it('name the source, the line and the reason', () => {
    const cause = new Error('why');
    expect(invalidSource('a.txt', 'it is broken', { line: 7, cause })).toMatchObject({
      code: 'SOURCE_INVALID',
      message: '"a.txt" cannot be embedded: line 7: it is broken',
      details: { source: 'a.txt', reason: 'line 7: it is broken', line: 7 },
      cause,
    });
    expect(invalidSource('a.txt', 'it is broken').details).not.toHaveProperty('line');
  });

  it('name the columns that there are, at most ten', () => {
    const names = Array.from({ length: 12 }, (_, i) => `c${i}`);
    expect(missingColumn('a.csv', 'path', names).message).toContain('no column "path" but c0, c1,');
    expect(missingColumn('a.csv', 'path', names).message).toContain('c9, … (--column names another)');
  });

  it('leave typed errors as they are', () => {
    const typed = new TapirError('CLOSED', 'closed', { details: { what: 'it' } });
    expect(asInvalidSource('a', typed)).toBe(typed);
    expect(asInvalidSource('a', new TypeError('odd'))).toMatchObject({ code: 'SOURCE_INVALID' });
  });

  it('do not blame a source if no file can be opened', () => {
    const cause = Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
    const limit = expect.objectContaining({ code: 'TOO_MANY_OPEN_FILES' });
    expect(() => invalidSource('a', 'b', { cause })).toThrow(limit);
  });
});
