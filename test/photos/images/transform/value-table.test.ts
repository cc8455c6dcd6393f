/** The value of each byte. Against the libraries: configs/transform-from-config.test.ts. */
import { describe, expect, it } from 'vitest';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { createValueTable, isNormalizedBy } from '../../../../src/photos/images/transform/value-table.js';

const f = Math.fround;
const options = TRANSFORM_PRESETS.ImageNet1K_V1;

describe('createValueTable', () => {
  it('rounds each step to float32', () => {
    const table = createValueTable(options, 3);
    // torch: (torch.tensor([1., 2., 3.]) / 255 - mean) / std
    expect([table[1], table[256 + 2], table[512 + 3]]).toEqual([
      f(f(f(1 / 255) - f(0.485)) / f(0.229)),
      f(f(f(2 / 255) - f(0.456)) / f(0.224)),
      f(f(f(3 / 255) - f(0.406)) / f(0.225)),
    ]);
  });

  it('leaves bytes as they are with scale 1 and without mean and std, in every arithmetic', () => {
    for (const arithmetic of ['torchvision', 'transformers', 'fused'] as const) {
      const table = createValueTable({ ...options, scale: 1, mean: null, std: null, arithmetic }, 1);
      expect([...table]).toEqual(Array.from({ length: 256 }, (_, byte) => byte));
    }
  });

  it('tells whether a graph that normalises step by step gives the same', () => {
    const { mean, std } = options;
    expect(isNormalizedBy(createValueTable(options, 3), mean!, std!)).toBe(true);
    // For 1/255 the arithmetic of Pillow's processors gives the same numbers; the fused one does not.
    expect(isNormalizedBy(createValueTable({ ...options, arithmetic: 'transformers' }, 3), mean!, std!)).toBe(
      true,
    );
    expect(isNormalizedBy(createValueTable({ ...options, arithmetic: 'fused' }, 3), mean!, std!)).toBe(false);
  });
});
