/** Images with whatever comes along with each → their features, with that beside them. */
import type { Extractor } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../image/lanes/decode-lanes.js';
import { embedBatches, type EmbeddedBatch } from '../../embed/embed-batches.js';
import type { EmbedSetup } from '../../embed/embed-options.js';
import type { SourceItem } from './list-folder.js';

/** An image, and what its row shall carry. */
export interface EmbedRecord<Extra> {
  readonly item: SourceItem;
  readonly extra: Extra;
}

/** A batch, with what each item carries. */
export interface EmbeddedRecords<Extra> extends EmbeddedBatch {
  /** In the order of the items. */
  readonly extras: readonly Extra[];
}

/**
 * Runs records batch by batch, in their order.
 *
 * @param maxWaitMs - A batch that is not full runs when the source pauses for so long; without it, only the last one is not full.
 */
export async function* embedRecords<Extra>(
  extractor: Extractor,
  records: AsyncIterable<EmbedRecord<Extra>>,
  setup: EmbedSetup,
  lanes: DecodeLanes,
  maxWaitMs?: number,
): AsyncGenerator<EmbeddedRecords<Extra>> {
  /** Of the items that are under way: they come out in the order in which they went in. */
  const extras: Extra[] = [];
  async function* items(): AsyncGenerator<SourceItem> {
    for await (const { item, extra } of records) {
      extras.push(extra);
      yield item;
    }
  }
  for await (const batch of embedBatches(extractor, items(), setup, lanes, maxWaitMs))
    yield { ...batch, extras: extras.splice(0, batch.items.length) };
}
