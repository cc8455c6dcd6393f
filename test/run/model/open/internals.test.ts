/** The state after public objects, and the refusal of anything else. */
import { describe, expect, it } from 'vitest';
import { Internals } from '../../../../src/run/model/open/internals.js';

describe('Internals', () => {
  const internals = new Internals<object, number>('model', 'a model');
  const owner = {};
  internals.set(owner, 5);

  it('holds one state per object', () => {
    expect(internals.of(owner)).toBe(5);
    expect([internals.has(owner), internals.has({}), internals.has(null)]).toEqual([true, false, false]);
  });

  it.each([
    ['a promise', Promise.resolve(owner), /got a promise \(forgotten "await"\?\)/],
    ['an object of another copy', new (class OnnxModel {})(), /OnnxModel, maybe of another copy/],
    ['nothing', undefined, /got undefined/],
    ['text', 'x', /got "x"/],
  ])('refuses %s', (_what, value, message) => {
    expect(() => internals.of(value as object)).toThrow(message);
    expect(() => internals.of(value as object)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});
