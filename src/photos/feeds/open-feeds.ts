/** The one way from photos to feeds: for runs, or as tensors in memory of their own for what learns from photos or measures on them. */
import type { DecodeLanes } from '../images/lanes/decode-lanes.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import { FeedBatches, type FeedOptions, type Feeds, type LoadedItem } from './feed-batches.js';
import type { SourceItems } from './items/source-item.js';
import type { FeedPlan } from './feed-plan.js';
import { TileBatches } from './tile-batches.js';

/** Batches that are open at once where nobody says otherwise: one that runs, one that is ready, and one that is being filled. */
const FEW_BATCHES = { openBatches: 3, refill: 1 } as const;

/**
 * Loads the photos of a source as feeds of a model, ahead of the consumer: whole, or in tiles if the plan says so.
 *
 * @param lanes - Decoding threads of the plan's transform. They stay open.
 */
export function openFeeds(
  source: SourceItems,
  plan: FeedPlan,
  lanes: DecodeLanes,
  options: Pick<FeedOptions, 'batch'> & Partial<FeedOptions>,
): Feeds {
  const { tiles } = plan.processor;
  if (tiles) return new TileBatches(source, plan, tiles, lanes, options);
  return new FeedBatches(source, plan, lanes, { ...FEW_BATCHES, ...options });
}

/** A batch of photos. */
export interface LoadedTensors {
  /** By input: the rows of the photos that could be read; without rows if none could. */
  readonly input: Readonly<Record<string, NamedTensor>>;
  /** All items of the batch. */
  readonly items: readonly LoadedItem[];
  /** How many rows there are. */
  readonly rows: number;
}

/** Loads photos ahead of the consumer, `batch` items at a time. */
export async function* loadTensors(
  source: SourceItems,
  plan: FeedPlan,
  lanes: DecodeLanes,
  batch: number,
): AsyncGenerator<LoadedTensors> {
  for await (const { items, memory, photos, release } of openFeeds(source, plan, lanes, { batch })) {
    const input = memory.tensors(photos);
    release();
    const rows = items.reduce((sum, { rows: [, count] }) => sum + count, 0);
    yield { input, items, rows };
  }
}
