/** Random crops and flips, against torchvision's with the same numbers (test/fixtures/make/crops.py). */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { loadPixels } from '../../../../src/photos/images/transform/load-pixels.js';
import { drawCrop, flipRows } from '../../../../src/photos/images/transform/random-crop.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { fixturePath, projectPath } from '../../../support/fixtures.js';

interface Crops {
  readonly boxes: readonly {
    readonly size: readonly [number, number];
    readonly numbers: readonly number[];
    readonly box: readonly number[];
  }[];
  readonly pixels: readonly {
    readonly photo: string;
    readonly seed: number;
    readonly size: readonly [number, number];
    readonly interpolation: 'bilinear' | 'bicubic';
    readonly flipped: boolean;
    readonly sha256: string;
  }[];
}

const crops = JSON.parse(readFileSync(fixturePath('crops.json'), 'utf8')) as Crops;

describe('random crops', () => {
  it.each(crops.boxes)('draws what torchvision draws in $size from $numbers', ({ size, numbers, box }) => {
    const [height, width] = size;
    let used = 0;
    const { top, left, ...crop } = drawCrop({ height, width }, () => numbers[used++]!);
    expect([top, left, crop.height, crop.width]).toEqual(box);
    expect(used).toBe(numbers.length);
  });

  it.each(crops.pixels)(
    'gives the pixels of torchvision for $photo, seed $seed, $size, $interpolation',
    async ({ photo, seed, size, interpolation, sha256 }) => {
      const [height, width] = size;
      const transform = createTransform({ resize: { height, width }, crop: null, interpolation });
      const path = projectPath(`examples/photos/${photo}`);
      const { image } = await loadPixels(path, transform, undefined, undefined, seed);
      const { data } = image as { data: Uint8Array };
      expect(createHash('sha256').update(data).digest('hex')).toBe(sha256);
    },
  );

  it('has both mirrored and other pictures among these', () => {
    expect(new Set(crops.pixels.map(({ flipped }) => flipped))).toEqual(new Set([true, false]));
  });

  it('mirrors the planes of a transform to floats', async () => {
    const options = { resize: { height: 8, width: 12 }, crop: null, resampler: 'torch-float' } as const;
    const transform = createTransform(options);
    const path = projectPath('examples/photos/sea/sea-0.jpg');
    const planesOf = async (seed: number): Promise<Float32Array> => {
      const { image } = await loadPixels(path, transform, undefined, undefined, seed);
      return (image as { planes: Float32Array }).planes;
    };
    const flipped = crops.pixels.find((one) => one.flipped && one.photo.startsWith('sea'));
    const seed = flipped?.seed ?? seedThatFlips();
    const planes = await planesOf(seed);
    // In both forms of the pixels, the same side is the left one.
    const bytes = await loadPixels(path, transform.with({ resampler: 'torch' }), undefined, undefined, seed);
    const red = (bytes.image as { data: Uint8Array }).data.filter((_, i) => i % 3 === 0);
    const back = Array.from(planes.subarray(0, 96), (value) => (value * 0.229 + 0.485) * 255);
    expect(Math.max(...back.map((value, i) => Math.abs(value - red[i]!)))).toBeLessThan(2);
  });

  it('mirrors rows', () => {
    const data = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18);
    flipRows(data, 3, 3);
    expect([...data]).toEqual([7, 8, 9, 4, 5, 6, 1, 2, 3, 16, 17, 18, 13, 14, 15, 10, 11, 12]);
    const planes = Float32Array.of(1, 2, 3, 4);
    flipRows(planes, 2, 1);
    expect([...planes]).toEqual([2, 1, 4, 3]);
  });

  it('stays inside the image, over its whole width', () => {
    const random = createRandom(7);
    const boxes = Array.from({ length: 2000 }, () => drawCrop({ height: 60, width: 90 }, random));
    expect(boxes.every(({ top, height }) => top >= 0 && height > 0 && top + height <= 60)).toBe(true);
    expect(boxes.every(({ left, width }) => left >= 0 && width > 0 && left + width <= 90)).toBe(true);
    expect(Math.min(...boxes.map(({ left }) => left))).toBe(0);
    expect(Math.max(...boxes.map(({ left, width }) => left + width))).toBe(90);
  });
});

function seedThatFlips(): number {
  const isFlipped = (seed: number): boolean => {
    const random = createRandom(seed);
    drawCrop({ height: 300, width: 400 }, random);
    return random() < 0.5;
  };
  let seed = 0;
  while (!isFlipped(seed)) seed++;
  return seed;
}
