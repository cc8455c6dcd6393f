/** The photos of ranks: as DistributedSampler's where the ranks divide the batch. */
import { describe, expect, it } from 'vitest';
import { distributedSampler } from '../../../../src/datasets/sources/sampling/distributed-sampler.js';
import {
  countBatches,
  countOwn,
  photosOfRank,
  UNEVEN,
} from '../../../../src/learn/train/folder/rank-photos.js';

const photos = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('photos of ranks', () => {
  it.each(UNEVEN)('are those of DistributedSampler (%s)', (uneven) => {
    for (const count of [1, 5, 12, 13, 23])
      for (const size of [1, 2, 3, 4])
        for (let rank = 0; rank < size; rank++) {
          const pad = uneven === 'pad' ? 'torch' : 'none';
          const expected = distributedSampler(count, {
            rank,
            worldSize: size,
            pad,
            dropLast: uneven === 'drop',
          });
          expect(photosOfRank(photos(count), { rank, size, uneven, batch: 3 * size }, 0)).toEqual([
            ...expected,
          ]);
        }
  });

  it('are together each photo once, in as many batches on each rank, whatever the batch', () => {
    for (const size of [2, 3, 5])
      for (const batch of [2, 4, 7]) {
        const shares = photos(size).map((rank) => ({ rank, size, uneven: 'keep', batch }) as const);
        const all = shares.flatMap((share) => photosOfRank(photos(17), share, 0));
        expect(all.toSorted((a, b) => a - b)).toEqual(photos(17));
        for (const share of shares) {
          const most = countOwn(share);
          const own = photosOfRank(photos(17), share, 0);
          // All batches but the last are full.
          const full = photosOfRank(photos(17), share, 1).length;
          expect(own.length - full).toBe(Math.min(most, photos(17).filter((i) => i < batch).length));
          expect(countBatches(17, share)).toBe(Math.ceil(17 / batch));
        }
      }
  });

  it('begin after the batches that are done', () => {
    const share = { rank: 1, size: 2, uneven: 'pad', batch: 4 } as const;
    expect(photosOfRank(photos(7), share, 0)).toEqual([1, 3, 5, 0]);
    expect(photosOfRank(photos(7), share, 1)).toEqual([5, 0]);
    expect(countBatches(7, share)).toBe(2);
  });
});
