/** Images with other data → features with that data. */
import type { Extractor } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import type { SourceItem } from '../../feeds/items/source-item.js';
import type { SourceRecord } from '../sources/records/source-record.js';
import { embedBatches, type RunBatch } from '../embed/embed-batches.js';
import type { EmbedSetup } from '../embed/embed-options.js';

/** A batch, and the other data of each item. */
export interface EmbeddedRecords<Extra> extends RunBatch {
  /** In the order of the items. */
  readonly extras: readonly Extra[];
}

/**
 * Runs records batch by batch, in order.
 *
 * @param maxWaitMs - Run a partial batch when the source pauses for this long. Without it only the last batch can be partial.
 */
export async function* embedRecords<Extra>(
  extractor: Extractor,
  records: AsyncIterable<SourceRecord<Extra>>,
  setup: EmbedSetup,
  lanes: DecodeLanes,
  maxWaitMs?: number,
): AsyncGenerator<EmbeddedRecords<Extra>> {
  /** Of the items that are under way. Items come out in the order in which they went in. */
  const extras: Extra[] = [];
  async function* items(): AsyncGenerator<SourceItem> {
    for await (const { item, extra } of records) {
      extras.push(extra);
      yield item;
    }
  }
  for await (const batch of embedBatches(extractor, items(), setup, lanes, { maxWaitMs }))
    yield { ...batch, extras: extras.splice(0, batch.items.length) };
}
