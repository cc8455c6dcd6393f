/** Grey, alpha and CMYK to RGB. Whole images against Pillow: ../preprocess.golden.test.ts. */
import { describe, expect, it } from 'vitest';
import { toRgb } from '../../../../src/photos/images/decode/colour.js';

describe('toRgb', () => {
  it('leaves RGB alone, repeats grey, and drops alpha', () => {
    const rgb = Uint8Array.of(1, 2, 3, 4, 5, 6);
    expect(toRgb(rgb, 3, false)).toBe(rgb);
    expect([...toRgb(Uint8Array.of(7, 8), 1, false)]).toEqual([7, 7, 7, 8, 8, 8]);
    expect([...toRgb(Uint8Array.of(7, 0, 8, 255), 2, false)]).toEqual([7, 7, 7, 8, 8, 8]);
    expect([...toRgb(Uint8Array.of(1, 2, 3, 0, 4, 5, 6, 255), 4, false)]).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('converts CMYK as Pillow does', () => {
    // Image.frombytes("CMYK", (4, 1), …).convert("RGB"), Pillow 13.
    const inks = Uint8Array.of(0, 0, 0, 0, 255, 255, 255, 255, 10, 100, 200, 50, 1, 128, 254, 3);
    const light = [255, 255, 255, 0, 0, 0, 197, 125, 44, 251, 126, 1];
    expect([...toRgb(inks, 4, true)]).toEqual(light);
    const withAlpha = Uint8Array.of(10, 100, 200, 50, 99);
    expect([...toRgb(withAlpha, 5, true)]).toEqual(light.slice(6, 9));
  });
});
