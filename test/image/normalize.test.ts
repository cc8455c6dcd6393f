/** The normalisation on WebAssembly SIMD compared with the table. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Normalization } from '../../src/image/normalize.js';
import { startSimdModule } from '../../src/image/simd/simd-module.js';

const simd = startSimdModule()!;
const number = fc.double({ min: -300, max: 300, noNaN: true });
const three = fc.tuple(number, number, number);

describe('the normalisation in WebAssembly', () => {
  it('gives the bits of the table: every byte, any mean and std, any size', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 60 }),
        three,
        three.filter((stds) => stds.every((std) => Math.fround(std) !== 0)),
        fc.nat(1000),
        (width, height, mean, std, offset) => {
          const bytes = width * height * 3;
          const image = { width, height, data: new Uint8Array(bytes).map((_, i) => (i * 85) >> 2) };
          const [actual, expected] = [simd, null].map((module) => {
            const into = new Float32Array(new SharedArrayBuffer(4 * (offset + bytes + 1))).fill(7);
            new Normalization(mean, std, () => module).writePlanes(image, into, offset);
            return Buffer.from(into.buffer);
          });
          expect(Buffer.compare(actual!, expected!)).toBe(0);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('rounds each step to float32', () => {
    const data = Uint8Array.of(1, 2, 3);
    const into = new Float32Array(3);
    new Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], () => simd).writePlanes(
      { width: 1, height: 1, data },
      into,
      0,
    );
    // torch: (torch.tensor([1., 2., 3.]) / 255 - mean) / std
    const f = Math.fround;
    expect([...into]).toEqual([
      f(f(f(1 / 255) - f(0.485)) / f(0.229)),
      f(f(f(2 / 255) - f(0.456)) / f(0.224)),
      f(f(f(3 / 255) - f(0.406)) / f(0.225)),
    ]);
  });

  it('uses the table if there is no memory', () => {
    const full = startSimdModule()!;
    full.reserve = () => null;
    const into = new Float32Array(3);
    new Normalization([0, 0, 0], [1, 1, 1], () => full).writePlanes(
      { width: 1, height: 1, data: Uint8Array.of(0, 255, 0) },
      into,
      0,
    );
    expect([...into]).toEqual([0, 1, 0]);
  });
});
