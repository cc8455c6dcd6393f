/** Images with other data → features with that data. */
import type { Extractor } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { rowsOfInputs } from '../../photos/feeds/tried-input.js';
import type { SourceRecord } from '../sources/records/source-record.js';
import { embedBatches, type RunBatch } from '../embed/embed-batches.js';
import type { EmbedSetup } from '../embed/embed-options.js';

/** A batch, and the other data of each row. */
export interface EmbeddedRecords<Extra> extends RunBatch {
  /** In the order of the rows, that of {@link rowsOfInputs}. */
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
  /** Of the items that are under way, from that at `first` on. They come out in the order in which they went in, one in tiles again and again. */
  const extras: Extra[] = [];
  let first = 0;
  async function* items(): AsyncGenerator<SourceItem> {
    for await (const { item, extra } of records) {
      extras.push(extra);
      yield item;
    }
  }
  for await (const batch of embedBatches(extractor, items(), setup, lanes, { maxWaitMs })) {
    const { index } = batch.items[0]!;
    extras.splice(0, index - first);
    first = index;
    const rows = [...rowsOfInputs(batch.items)];
    yield { ...batch, extras: rows.map(({ item }) => extras[item.index - first]!) };
  }
}
