/** What other files of the package use of an extractor, whether it runs on one device or on several. */
import type { ResolvedDevice } from '../runtime/device.js';
import type { Feed } from '../tensor/image-feed.js';
import type { ReplicaSpent } from '../runtime/replica.js';
import type { Tensor } from '../tensor/tensor.js';
import type { FeatureModel } from './feature-model.js';

export interface ExtractorInternals<Key extends string> {
  readonly model: FeatureModel;
  /** The device of each session, as it is used. */
  readonly sessions: readonly ResolvedDevice[];
  /** By device, so far. */
  readonly spent: readonly ReplicaSpent[];
  /** Runs a checked feed, all of it on one device. */
  runWhole(feed: Feed, signal: AbortSignal | undefined): Promise<Record<Key, Tensor>>;
}
