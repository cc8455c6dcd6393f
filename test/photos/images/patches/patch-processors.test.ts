import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkPatches } from '../../../../src/photos/images/patches/check-patches.js';
import {
  PATCH_PROCESSORS,
  patchProcessor,
  type NaflexPatches,
  type PatchOptions,
  type QwenPatches,
} from '../../../../src/photos/images/patches/patch-processors.js';
import type { Size } from '../../../../src/photos/images/pixels/geometry.js';

const sizeOf = (image: Size, patches: PatchOptions): Size => patchProcessor(patches).sizeOf(image, patches);

const NAFLEX: NaflexPatches = { processor: 'naflex', size: 16, maxPatches: 64 };
const QWEN: QwenPatches = {
  processor: 'qwen2-vl',
  size: 14,
  merge: 2,
  frames: 2,
  minPixels: 3136,
  maxPixels: 1_003_520,
};

const GLM_CASES: readonly (readonly [number, number, number, number])[] = [
  [75, 100, 84, 112],
  [500, 333, 196, 140],
  [7, 150, 28, 588],
  [33, 29, 112, 84],
  [13, 17, 84, 112],
  [900, 30, 896, 28],
  [224, 225, 168, 168],
];

describe('sizes in patches', () => {
  // From transformers 5.24: get_image_size_for_max_num_patches and smart_resize.
  it.each([
    [
      { height: 75, width: 100 },
      { height: 112, width: 144 },
    ],
    [
      { height: 381, width: 257 },
      { height: 144, width: 112 },
    ],
    [
      { height: 1, width: 1 },
      { height: 112, width: 112 },
    ],
    [
      { height: 8, width: 1200 },
      { height: 16, width: 1024 },
    ],
  ])('NaFlex makes %o %o', (image, size) => {
    expect(sizeOf(image, NAFLEX)).toEqual(size);
  });

  it.each([
    // 70 and 98 are two and a half and three and a half blocks: both become even.
    [
      { height: 70, width: 98 },
      { height: 56, width: 112 },
    ],
    [
      { height: 2, width: 3 },
      { height: 56, width: 84 },
    ],
    [
      { height: 900, width: 7 },
      { height: 644, width: 28 },
    ],
    [
      { height: 3000, width: 4000 },
      { height: 840, width: 1148 },
    ],
  ])('Qwen makes %o %o', (image, size) => {
    expect(sizeOf(image, QWEN)).toEqual(size);
  });

  it('refuses a ratio above 200, which Qwen cannot fit', () => {
    expect(sizeOf({ height: 1, width: 200 }, QWEN).height).toBe(28);
    expect(() => sizeOf({ height: 2, width: 401 }, QWEN)).toThrow(
      expect.objectContaining({ code: 'IMAGE_MISFIT', message: expect.stringContaining('200.5 times') }),
    );
  });

  it('gives whole patches, and never more than allowed', () => {
    const side = fc.integer({ min: 1, max: 20_000 });
    fc.assert(
      fc.property(side, side, fc.integer({ min: 1, max: 1024 }), (height, width, maxPatches) => {
        const size = sizeOf({ height, width }, { ...NAFLEX, maxPatches });
        expect((size.height % 16) + (size.width % 16)).toBe(0);
        expect((size.height / 16) * (size.width / 16)).toBeLessThanOrEqual(maxPatches);
      }),
    );
  });

  // From transformers 5.24: smart_resize of image_processing_glm4v.py, with two frames.
  it.each(GLM_CASES)('GLM-4V makes %i × %i: %i × %i', (height, width, ...sides) => {
    const glm = { ...QWEN, processor: 'glm-4v', minPixels: 12_544, maxPixels: 62_721 } as const;
    expect(Object.values(sizeOf({ height, width }, glm))).toEqual(sides);
  });

  it('has a row for each processor, by its name', () => {
    for (const [name, { defaults }] of Object.entries(PATCH_PROCESSORS))
      expect(checkPatches({ processor: name })).toEqual({ ...defaults, processor: name });
  });
});
