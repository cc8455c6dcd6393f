/** Features of single photos become batches of photos whose features are alike. */
import { describe, expect, it } from 'vitest';
import { groupAlike, stackPhotos } from '../../../src/datasets/embed/stack-photos.js';
import type { LoadedItem } from '../../../src/photos/feeds/feed-batches.js';

const item = (index: number, error: unknown = null): LoadedItem =>
  ({ index, path: String(index), error, rows: [0, error === null ? 1 : 0] }) as unknown as LoadedItem;
const features = (...data: number[]) => ({
  f: { dtype: 'float32' as const, dims: [data.length], data: Float32Array.from(data) },
});

describe('features of photos', () => {
  it('are one tensor if they are alike', () => {
    const { f } = stackPhotos([features(1, 2), features(3, 4)]);
    expect({ dims: f!.dims, data: [...(f!.data as Float32Array)] }).toEqual({
      dims: [2, 2],
      data: [1, 2, 3, 4],
    });
    expect(() => stackPhotos([features(1), features(2, 3)])).toThrow(
      expect.objectContaining({
        code: 'OUTPUT_NOT_BATCHED',
        message: expect.stringContaining('[2] for one photo after [1]'),
      }),
    );
  });

  it('are in batches of their own where they are unlike, with each failed photo where it was', () => {
    const items = [item(0, 'bad'), item(1), item(2, 'bad'), item(3), item(4)];
    const groups = groupAlike(items, [features(1), features(2), features(3, 4)]);
    expect(groups.map((group) => group.items.map(({ index, rows }) => [index, rows]))).toEqual([
      [
        [0, [0, 0]],
        [1, [0, 1]],
        [2, [1, 0]],
        [3, [1, 1]],
      ],
      [[4, [0, 1]]],
    ]);
    expect(groups.map((group) => group.features['f']!.dims)).toEqual([
      [2, 1],
      [1, 2],
    ]);
  });
});
