import { describe, expect, it, vi } from 'vitest';
import { isTapirError, reasonOf, TapirError } from '../../src/base/errors.js';
import { packError, unpackError } from '../../src/base/packed-error.js';

describe('TapirError', () => {
  const error = new TapirError('BATCH_FIXED', 'no', {
    details: { batch: 4, rows: 5 },
    cause: new Error('under'),
  });

  it('has a code, typed details and a name that does not show up in listings', () => {
    expect(error).toMatchObject({ name: 'TapirError', code: 'BATCH_FIXED', details: { batch: 4, rows: 5 } });
    expect(Object.keys(error)).toEqual(['code', 'details']);
    expect(isTapirError(error, 'BATCH_FIXED') && error.details.rows).toBe(5);
    expect(isTapirError(error, 'CLOSED')).toBe(false);
    expect(isTapirError(new Error('x'))).toBe(false);
  });

  it('survives structured clone by packing, with class, code, details, stack and cause', () => {
    const back = unpackError(structuredClone(packError(error)));
    expect(back).toBeInstanceOf(TapirError);
    expect(back).toMatchObject({ message: 'no', code: 'BATCH_FIXED', details: { batch: 4, rows: 5 } });
    expect((back.cause as Error).message).toBe('under');
    expect(back.stack).toBe(error.stack);
  });

  it('is recognised across two copies of the package, and only if it is one', async () => {
    vi.resetModules();
    const other = await import('../../src/base/errors.js');
    expect(other.TapirError).not.toBe(TapirError);
    const theirs = new other.TapirError('CLOSED', 'closed', {
      details: { what: 'it' },
      errors: [new Error('beside')],
    });
    expect(isTapirError(theirs, 'CLOSED') && theirs.details.what).toBe('it');
    expect(isTapirError(theirs, 'RUN_FAILED')).toBe(false);
    expect(theirs).toBeInstanceOf(TapirError);
    expect(error).toBeInstanceOf(other.TapirError);
    expect(unpackError(packError(theirs))).toMatchObject({ code: 'CLOSED', errors: [{ message: 'beside' }] });
    for (const stranger of [new TypeError('x'), { code: 'CLOSED' }, 'CLOSED', null, undefined])
      expect(isTapirError(stranger)).toBe(false);
  });

  it('has subclasses of which a plain one is no instance', () => {
    class Special extends TapirError {}
    expect(new Special('CLOSED', 'x', { details: { what: 'it' } })).toBeInstanceOf(Special);
    expect(error).not.toBeInstanceOf(Special);
  });

  it('ends at causes that lead back, and at many', () => {
    const [first, second] = [new Error('first'), new Error('second', { cause: error })];
    first.cause = second;
    second.cause = first;
    expect(packError(first)).toMatchObject({ message: 'first', cause: { message: 'second' } });
    expect(packError(first).cause).not.toHaveProperty('cause');
    let deep = new Error('deepest');
    for (let depth = 0; depth < 100_000; depth++) deep = new Error('above', { cause: deep });
    expect(unpackError(packError(deep)).message).toBe('above');
  });

  it('packs what is no error too', () => {
    expect(unpackError(packError('text')).message).toBe('text');
    expect(reasonOf('a\n  b')).toBe('a b');
  });
});
