import { describe, expect, it } from 'vitest';
import {
  checkBoolean,
  checkInteger,
  checkOneOf,
  checkSignal,
  checkText,
  givenFields,
  show,
  withDefaults,
} from '../../src/base/checks.js';

const defaults = { batch: 8, name: 'x' };

describe('withDefaults', () => {
  it('lays given values over the defaults, and takes undefined as absent', () => {
    expect(withDefaults(defaults, { batch: 2, name: undefined }, 'f')).toEqual({ batch: 2, name: 'x' });
  });

  it('refuses unknown keys and names the known ones', () => {
    expect(() => withDefaults(defaults, { bach: 2 } as object, 'f')).toThrow(
      'f has no option "bach"; did you mean "batch"? It has batch, name',
    );
    expect(() => withDefaults(defaults, { batchSize: 2 } as object, 'f')).toThrow('did you mean "batch"?');
    expect(() => withDefaults(defaults, { threads: 2 } as object, 'f')).toThrow(
      'f has no option "threads"; it has batch, name',
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

describe('givenFields', () => {
  it('drops undefined, so that a spread keeps what is inherited', () => {
    const inherited = { split: 'dynamic', dim: 1 };
    const given: { split?: string | undefined; dim?: number } = { split: undefined, dim: 2 };
    expect({ ...inherited, ...givenFields(given, 'parallel') }).toEqual({ split: 'dynamic', dim: 2 });
  });

  it('refuses what is not an options object', () => {
    for (const given of [null, [], 'cpu', 3])
      expect(() => givenFields(given as object, 'parallel')).toThrow(
        /^parallel takes an options object, got /,
      );
  });

  it('keeps null, which is a value', () => {
    expect(givenFields({ crop: null, resize: undefined }, 'transform')).toEqual({ crop: null });
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

  it('let good values pass, and refuse others', () => {
    expect(checkBoolean('x', false)).toBe(false);
    expect(checkText('x', 'y')).toBe('y');
    expect(checkSignal(undefined)).toBeUndefined();
    expect(() => checkBoolean('x', 1)).toThrow('true or false, got 1');
    expect(() => checkText('x', '')).toThrow('a string that is not empty, got ""');
    expect(() => checkSignal({})).toThrow('option "signal" must be an AbortSignal');
  });

  it('show values shortly', () => {
    expect(show('a'.repeat(200))).toHaveLength(80);
    expect(show(new Float32Array(9))).toBe('Float32Array');
    expect(show({ a: 1n })).toBe('{"a":"1n"}');
    expect(show(() => 1)).toBe('a function');
    const itself: { self?: unknown } = {};
    itself.self = itself;
    expect(show(itself)).toBe('an object of class Object');
    expect(show({ toJSON: () => undefined })).toBe('undefined');
    expect(show({ data: Buffer.from('pixels'), width: 2 })).toBe('{"data":"Buffer","width":2}');
    expect(show((function* () {})())).toBe('an iterable');
    expect(show(new AbortController())).toBe('an object of class AbortController');
    expect([show({}), show([])]).toEqual(['{}', '[]']);
  });
});
