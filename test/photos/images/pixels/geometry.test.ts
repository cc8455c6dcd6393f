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

  // transformers 5.24, image_processing_dpt.py: get_resize_output_image_size(…, (126, 98), keep_aspect_ratio=True, multiple=14).
  it.each([
    [331, 517, 126, 196],
    [97, 641, 126, 826],
    [701, 113, 602, 98],
    [33, 29, 112, 98],
    [224, 225, 126, 126],
    [63, 100, 56, 98],
    [7, 150, 0, 98],
  ])('changes %i × %i as little as possible', (height, width, ...sides) => {
    const target = { fit: 'nearest', height: 126, width: 98, multiple: 14 } as const;
    expect(Object.values(resizedSize({ height, width }, target))).toEqual(sides);
  });

  it('pads and crops half of what is missing rounded down, as Donut does', () => {
    const crop = { height: 4, width: 4 };
    expect(cropOf({ height: 7, width: 1 }, crop, 'ceil')).toMatchObject({ top: 2, left: -1 });
    expect(cropOf({ height: 7, width: 1 }, crop, 'trunc')).toMatchObject({ top: 1, left: -1 });
  });
});
