/** Training's random crops and flips, with torchvision's semantics: RandomResizedCrop and RandomHorizontalFlip. */
import { createRandom } from '../../../base/random.js';
import { roundHalfEven } from '../../../base/round-half-even.js';
import type { Region, Size } from '../pixels/geometry.js';
import { cutRegion, type RgbImage } from '../pixels/rgb-image.js';

/** The share of the image's area that a crop takes. */
const SCALE = [0.08, 1] as const;
/** The crop's width divided by its height. */
const RATIO = [3 / 4, 4 / 3] as const;
const TRIES = 10;
const FLIPPED = 0.5;

/**
 * Draws a crop as torchvision's `RandomResizedCrop.get_params`: its area uniform, its aspect ratio log-uniform. After ten tries that do
 * not fit, the central crop of the nearest ratio.
 *
 * @param random - Numbers from 0 to 1: area and ratio of each try, then top and left. torchvision computes the first two in float32.
 */
export function drawCrop({ height, width }: Size, random: () => number): Region {
  const between = (low: number, high: number): number => low + (high - low) * random();
  for (let tried = 0; tried < TRIES; tried++) {
    const area = height * width * between(...SCALE);
    const ratio = Math.exp(between(Math.log(RATIO[0]), Math.log(RATIO[1])));
    const size = {
      height: roundHalfEven(Math.sqrt(area / ratio)),
      width: roundHalfEven(Math.sqrt(area * ratio)),
    };
    if (size.width < 1 || size.width > width || size.height < 1 || size.height > height) continue;
    const top = Math.floor(random() * (height - size.height + 1));
    const left = Math.floor(random() * (width - size.width + 1));
    return { top, left, ...size };
  }
  return centralCrop({ height, width });
}

/** The largest crop in the centre whose ratio is allowed. */
function centralCrop({ height, width }: Size): Region {
  const ratio = width / height;
  const size = {
    height: ratio < RATIO[0] ? roundHalfEven(width / RATIO[0]) : height,
    width: ratio > RATIO[1] ? roundHalfEven(height * RATIO[1]) : width,
  };
  const top = Math.floor((height - size.height) / 2);
  const left = Math.floor((width - size.width) / 2);
  return { top, left, ...size };
}

/** A random crop, and whether to flip what it becomes. */
export interface Augmented {
  readonly image: RgbImage;
  readonly isFlipped: boolean;
}

/**
 * Cuts a random crop out of an image, to be resized as if it were a whole image.
 *
 * @param seed - Chooses crop and flip; for an image of the same size, always the same ones.
 */
export function cropRandomly(image: RgbImage, seed: number): Augmented {
  const random = createRandom(seed);
  return { image: cutRegion(image, drawCrop(image, random)), isFlipped: random() < FLIPPED };
}

/** Mirrors each row of `width` pixels in place. A pixel has `step` elements: 3, or 1 for planes. */
export function flipRows(data: Uint8Array | Float32Array, width: number, step: number): void {
  const pitch = width * step;
  for (let row = 0; row < data.length; row += pitch)
    for (let left = row, right = row + pitch - step; left < right; left += step, right -= step)
      for (let k = 0; k < step; k++) {
        const value = data[left + k]!;
        data[left + k] = data[right + k]!;
        data[right + k] = value;
      }
}
