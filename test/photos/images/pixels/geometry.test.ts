/** The sizes of torchvision's Resize and CenterCrop. */
import { describe, expect, it } from 'vitest';
import { cropOf, resizedSize } from '../../../../src/photos/images/pixels/geometry.js';

describe('geometry', () => {
  it('truncates the longer side and rounds the crop half to even, as torchvision does', () => {
    expect(resizedSize({ height: 375, width: 500 }, 256)).toEqual({ height: 256, width: 341 });
    expect(resizedSize({ height: 500, width: 375 }, 256)).toEqual({ height: 341, width: 256 });
    expect(resizedSize({ height: 1, width: 9000 }, 256)).toEqual({ height: 256, width: 2_304_000 });
    expect(resizedSize({ height: 3, width: 4 }, null)).toEqual({ height: 3, width: 4 });
    // (229 − 224) / 2 = 2.5 → 2, (231 − 224) / 2 = 3.5 → 4.
    const crop = { height: 224, width: 224 };
    expect(cropOf({ height: 229, width: 231 }, crop)).toMatchObject({ top: 2, left: 4 });
    expect(cropOf({ height: 100, width: 225 }, crop)).toMatchObject({ top: -62, left: 0 });
  });
});
