/** Where several crops of one image lie: torchvision's FiveCrop and TenCrop. */
import { cropOf, type CropOffset, type Region, type Size } from './geometry.js';

export const CROPS = ['center', 'five', 'ten', 'ten-vertical'] as const;
export type Crops = (typeof CROPS)[number];

/** What becomes of the crops of a photo: their mean, or a row for each. */
export const CROP_ROWS = ['mean', 'each'] as const;
export type CropRows = (typeof CROP_ROWS)[number];

/** How many crops an image has. */
export function countCrops(crops: Crops): number {
  return crops === 'center' ? 1 : crops === 'five' ? 5 : 10;
}

/** A region to cut out, and which way it is mirrored then. */
export interface Cut {
  readonly region: Region;
  readonly flip: 'across' | 'down' | null;
}

/** The crops of an image that is at least as large as each of them, in torchvision's order. */
export function placeCrops(image: Size, crop: Size, crops: Crops, offset: CropOffset): readonly Cut[] {
  const center = cropOf(image, crop, offset);
  if (crops === 'center') return [{ region: center, flip: null }];
  const [bottom, right] = [image.height - crop.height, image.width - crop.width];
  const five: readonly Region[] = [
    { top: 0, left: 0, ...crop },
    { top: 0, left: right, ...crop },
    { top: bottom, left: 0, ...crop },
    { top: bottom, left: right, ...crop },
    center,
  ];
  const plain = five.map((region) => ({ region, flip: null }));
  if (crops === 'five') return plain;
  const flip = crops === 'ten' ? 'across' : 'down';
  // The image is mirrored and then cropped: half a pixel in the centre is rounded on the other side.
  const mirrored = five.map((region) => ({
    region:
      flip === 'across' ? { ...region, left: right - region.left } : { ...region, top: bottom - region.top },
    flip,
  }));
  return [...plain, ...mirrored] as readonly Cut[];
}
