/** How much the fast mode differs from the exact pixels. */
import { describe, expect, it } from 'vitest';
import { measureDeviation } from '../../../../src/photos/images/transform/deviation.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { fixturePath } from '../../../support/fixtures.js';

const imagePath = (name: string): string => fixturePath(`preprocess/images/${name}`);

describe('measureDeviation', () => {
  it('measures the difference between fast and exact', async () => {
    const options = { resize: 32, crop: 32 } as const;
    const deviation = await measureDeviation(imagePath('jpeg_420_500x375.jpg'), createTransform(options));
    const exact = await loadImage(imagePath('jpeg_420_500x375.jpg'), createTransform(options));
    const fast = await loadImage(
      imagePath('jpeg_420_500x375.jpg'),
      createTransform({ ...options, decode: 'fast' }),
    );
    expect(deviation).toEqual({
      reduction: 4,
      mean: meanDifference(fast.data, exact.data),
      max: Math.max(...exact.data.map((value, i) => Math.abs(value - fast.data[i]!))),
    });
    expect(deviation.mean).toBeGreaterThan(0);
    expect(deviation.mean).toBeLessThan(3);
  });

  it('is zero if nothing is reduced', async () => {
    expect(await measureDeviation(imagePath('png_rgb_333x500.png'), createTransform())).toEqual({
      mean: 0,
      max: 0,
      reduction: 1,
    });
  });
});

function meanDifference(a: Uint8Array, b: Uint8Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
}
