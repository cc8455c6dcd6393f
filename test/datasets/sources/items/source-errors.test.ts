import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import {
  asInvalidSource,
  invalidSource,
  missingColumn,
  ofSource,
  SourceFault,
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
    const { message } = asInvalidSource('a.csv', missingColumn('path', names));
    expect(message).toMatch(
      /^"a\.csv" .*no column "path"; the columns are c0, c1, .*c9, …: choose one with --column$/,
    );
  });

  it('say of a reason which source it is of, and leave what the producer throws', async () => {
    const from = async (thrown: Error): Promise<unknown> => {
      const items = (async function* () {
        yield await Promise.resolve(1);
        throw thrown;
      })();
      const seen: unknown[] = [];
      try {
        for await (const item of ofSource('a stream', items)) seen.push(item);
      } catch (error) {
        expect(seen).toEqual([1]);
        return error;
      }
      return undefined;
    };
    const cause = new Error('why');
    expect(await from(new SourceFault('it is broken', { line: 7, hint: 'mend it', cause }))).toMatchObject({
      message: '"a stream" cannot be embedded: line 7: it is broken (mend it)',
      details: { source: 'a stream', line: 7 },
      cause,
    });
    expect(await from(cause)).toBe(cause);
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
