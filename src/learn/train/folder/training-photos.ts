/** Photos by class → batches to train and to evaluate on. */
import { createRandom, seedOf, shuffled } from '../../../base/random.js';
import { openPhotos } from '../../../photos/feeds/open-photos.js';
import type { FeedPlan } from '../../../photos/feeds/feed-plan.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import type { TrainBatch } from '../trainer-calls.js';
import { checkOneRow } from '../../../photos/images/transform/check-transform.js';
import { DecodeLanes } from '../../../photos/images/lanes/decode-lanes.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import type { ClassImage } from './class-folders.js';
import { countBatches, countOwn, photosOfRank, type Shares } from './rank-photos.js';

/** A photo that could not be read, and was left out. */
export interface TrainFailure {
  /** Relative to the folder of classes. */
  readonly path: string;
  /** An `IMAGE_*` code. */
  readonly code: string;
  readonly message: string;
}

/** How photos are read. */
export interface PhotoPlan {
  readonly transform: Transform;
  /** Which photos of a batch this rank reads. */
  readonly shares: Shares;
  readonly threads: number;
  readonly isAugmented: boolean;
  readonly seed: number;
}

/** Reads the photos of a training in threads. */
export class TrainingPhotos {
  readonly #plan: PhotoPlan;
  readonly #feeds: FeedPlan;
  readonly #lanes: DecodeLanes;
  readonly #failures = new Map<string, TrainFailure>();

  /** @throws {@link TapirError} `OPTION_INVALID` for a transform that does not fit the model. */
  constructor(model: OnnxModel, plan: PhotoPlan) {
    const { transform, threads } = plan;
    checkOneRow(transform.options, 'for training');
    this.#plan = plan;
    this.#feeds = planFeeds(model, transform, { takes: 'one size' });
    this.#lanes = new DecodeLanes(transform, threads);
  }

  /** The photos that could not be read so far. */
  get failures(): readonly TrainFailure[] {
    return [...this.#failures.values()];
  }

  /** The number of batches of an epoch. */
  countBatches(images: readonly ClassImage[]): number {
    return countBatches(images.length, this.#plan.shares);
  }

  /**
   * This rank's part of the batches of an epoch, in an order and with crops that depend on the seed, the epoch and the photos' paths alone.
   *
   * @param from - Batches to leave out at the start.
   * @returns Batches; null for one without a photo of this rank that could be read.
   */
  async *epoch(
    images: readonly ClassImage[],
    epoch: number,
    from: number,
  ): AsyncGenerator<TrainBatch | null> {
    const { shares, isAugmented, seed } = this.#plan;
    const order = shuffled(images, createRandom(seedOf(seed, 'order', epoch)));
    const withSeed = (image: ClassImage): ClassImage => ({
      ...image,
      augmentSeed: seedOf(seed, 'crop', epoch, image.path),
    });
    const own = photosOfRank(isAugmented ? order.map(withSeed) : order, shares, from);
    let left = this.countBatches(images) - from;
    for await (const batch of this.#load(own)) {
      left--;
      yield batch;
    }
    for (; left > 0; left--) yield null;
  }

  /** Batches to evaluate on: as the model's own transform makes them. */
  async *heldOut(images: readonly ClassImage[]): AsyncGenerator<TrainBatch> {
    const own = photosOfRank(images, { ...this.#plan.shares, uneven: 'keep' }, 0);
    for await (const batch of this.#load(own)) if (batch) yield batch;
  }

  async *#load(images: readonly ClassImage[]): AsyncGenerator<TrainBatch | null> {
    const batch = Math.max(1, countOwn(this.#plan.shares));
    for await (const { items, photos, take } of openPhotos(images, this.#feeds, this.#lanes, { batch })) {
      for (const { path, error } of items)
        if (error) this.#failures.set(path!, { path: path!, code: error.code, message: error.message });
      const target = items.flatMap(({ index, rows: [, count] }) =>
        Array<number>(count).fill(images[index]!.label),
      );
      const input = take();
      yield photos.length === 0 ? null : { input, target };
    }
  }

  close(): Promise<void> {
    return this.#lanes.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
