import { describe, expect, it } from 'vitest';
import { checkInteger, checkOneOf, show, withDefaults } from '../../src/base/checks.js';
import { isTapirError, packError, reasonOf, TapirError, unpackError } from '../../src/base/errors.js';

const defaults = { batch: 8, name: 'x' };

describe('withDefaults', () => {
  it('lays given values over the defaults, and takes undefined as absent', () => {
    expect(withDefaults(defaults, { batch: 2, name: undefined }, 'f')).toEqual({ batch: 2, name: 'x' });
  });

  it('refuses unknown keys and names the known ones', () => {
    expect(() => withDefaults(defaults, { bach: 2 } as object, 'f')).toThrow(
      'f has no option "bach"; it has batch, name',
    );
  });

  it('refuses what is no object', () => {
    for (const given of [null, [], 'cpu'])
      expect(() => withDefaults(defaults, given as object, 'f')).toThrow('an options object');
  });

  it('does not write to the given object, and freezes its own', () => {
    const given = Object.freeze({ batch: 2 });
    expect(Object.isFrozen(withDefaults(defaults, given, 'f'))).toBe(true);
  });
});

describe('checks', () => {
  it('say what is expected and what came, in one form', () => {
    expect(() => checkInteger('batch', -1, 1, 9)).toThrow(
      'option "batch" must be an integer from 1 to 9, got -1',
    );
    expect(() => checkInteger('batch', 1.5, 1, 9)).toThrow('got 1.5');
    expect(() => checkOneOf('mode', 'c', ['a', 'b'])).toThrow(
      'option "mode" must be one of "a", "b", got "c"',
    );
  });

  it('show values shortly', () => {
    expect(show('a'.repeat(200))).toHaveLength(80);
    expect(show(new Float32Array(9))).toBe('Float32Array');
    expect(show({ a: 1n })).toBe('{"a":"1n"}');
    expect(show(() => 1)).toBe('a function');
  });
});

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

  it('packs what is no error too', () => {
    expect(unpackError(packError('text')).message).toBe('text');
    expect(reasonOf('a\n  b')).toBe('a b');
  });
});
