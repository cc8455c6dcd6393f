/** `--size` and `--input-shape`, read into the option `inputSizes`. */
import { describe, expect, it } from 'vitest';
import { readSizeFlags } from '../../../src/cli/flags/size-flags.js';

describe('readSizeFlags', () => {
  it('reads one size, sizes of axes, and shapes', () => {
    expect(readSizeFlags({})).toEqual({});
    expect(readSizeFlags({ size: ['48'] })).toBe(48);
    const flags = { size: ['h=48', 'a=b=7'], inputShape: ['x=1,3, 48,320'] };
    expect(readSizeFlags(flags)).toEqual({ h: 48, 'a=b': 7, x: [1, 3, 48, 320] });
  });

  it.each([
    { size: ['48', 'h=3'] },
    { size: ['48'], inputShape: ['x=1'] },
    { size: ['=3'] },
    { size: ['h=-1'] },
    { size: ['h=4.5'] },
    { inputShape: ['1,3,48,320'] },
    { inputShape: ['x=1,,3'] },
    { inputShape: ['x=1x3'] },
  ])('refuses %j', (flags) => {
    expect(() => readSizeFlags(flags)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }) as Error);
  });
});
