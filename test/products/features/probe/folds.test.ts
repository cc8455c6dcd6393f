import { describe, expect, it } from 'vitest';
import { dealFolds } from '../../../../src/products/features/probe/fit/folds.js';

const [ROWS, CLASSES, FOLDS] = [240, 3, 5];

describe('dealFolds', () => {
  it('deals the rows of a class out evenly', () => {
    const labels = Int32Array.from({ length: ROWS }, (_, row) => row % CLASSES);
    const foldOf = dealFolds({ labels, classes: CLASSES, photos: undefined }, FOLDS, 1);
    for (let fold = 0; fold < FOLDS; fold++)
      for (let label = 0; label < CLASSES; label++)
        expect(foldOf.filter((one, row) => one === fold && labels[row] === label)).toHaveLength(16);
  });

  it('keeps the rows of a photo together, and folds of like size', () => {
    // Photos of several rows; those of a photo do not follow one another.
    const photos = Int32Array.from({ length: ROWS }, (_, row) => Math.min((row * 37) % 61, (row * 17) % 53));
    const labels = photos.map((photo) => photo % CLASSES);
    const foldOf = dealFolds({ labels, classes: CLASSES, photos }, FOLDS, 1);
    for (const photo of new Set(photos)) {
      const own = foldOf.filter((_, row) => photos[row] === photo);
      expect(new Set(own).size).toBe(1);
    }
    const sizes = Array.from({ length: FOLDS }, (_, fold) => foldOf.filter((one) => one === fold).length);
    expect(Math.max(...sizes)).toBeLessThan(2 * Math.min(...sizes));
  });

  it('deals photos of one row as it deals rows', () => {
    const labels = Int32Array.from({ length: ROWS }, (_, row) => row % CLASSES);
    const photos = labels.map((_, row) => row);
    const deal = { labels, classes: CLASSES };
    expect(dealFolds({ ...deal, photos }, FOLDS, 7)).toEqual(
      dealFolds({ ...deal, photos: undefined }, FOLDS, 7),
    );
  });
});
