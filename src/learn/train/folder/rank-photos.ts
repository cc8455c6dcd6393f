/** The photos of a rank: shares of the same batches, however many ranks there are. */

/** What happens to photos that ranks cannot share equally. */
export const UNEVEN = ['keep', 'pad', 'drop'] as const;
/** One of {@link UNEVEN}. */
export type Uneven = (typeof UNEVEN)[number];

/** Who shares photos, and how. */
export interface Shares {
  readonly rank: number;
  readonly size: number;
  readonly uneven: Uneven;
  /** Photos per batch, over all ranks. */
  readonly batch: number;
}

/** The number of photos of an epoch over all ranks, repeated ones included. */
function countShared(photos: number, { size, uneven }: Shares): number {
  const rest = uneven === 'keep' ? 0 : photos % size;
  return uneven === 'pad' && rest > 0 ? photos - rest + size : photos - rest;
}

/** The batches of an epoch. */
export function countBatches(photos: number, shares: Shares): number {
  return Math.ceil(countShared(photos, shares) / shares.batch);
}

/** The most photos that a rank has of a batch; 0 where there are fewer photos than ranks. */
export function countOwn({ rank, size, batch }: Omit<Shares, 'uneven'>): number {
  return Math.ceil(Math.max(0, batch - rank) / size);
}

/**
 * The photos of a rank: of each batch every size-th, from the rank-th on. Only the last batch has fewer of them than {@link countOwn}.
 *
 * @param photos - Those of the epoch, in its order.
 * @param from - Batches to leave out at the start.
 */
export function photosOfRank<Photo>(photos: readonly Photo[], shares: Shares, from: number): Photo[] {
  const { rank, size, batch } = shares;
  const all = Array.from(
    { length: countShared(photos.length, shares) },
    (_, i) => photos[i % photos.length]!,
  );
  return all.filter((_, i) => i >= from * batch && (i % batch) % size === rank);
}
