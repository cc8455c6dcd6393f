/** How many inputs a source has, to estimate how long a run takes. */
import { isListedTar } from './archives/listed-tars.js';
import { openListed, openSource, type EmbedSource } from './open-source.js';
import type { SourcePlan } from '../../photos/feeds/items/source-options.js';

/** Inputs counted at once. Between such groups the run continues. */
const INPUTS_AT_ONCE = 512;

/**
 * Counts the inputs of a source, or some of them, while a run reads it.
 *
 * @param isCounted - Whether an input counts, by its path and its position in the source. Without it, all inputs count.
 * @returns Null for a source that can be read only once (a stream, an iterator), for a tar, which must be read whole, and for some of the
 * images that Parquet files hold.
 * @throws {@link TapirError} Those of the source.
 */
export async function countInputs(
  source: EmbedSource,
  options: SourcePlan,
  signal: AbortSignal,
  isCounted?: (path: string | null, position: number) => boolean,
): Promise<number | null> {
  if (Array.isArray(source) && !isCounted && !options.clips) return source.length;
  if (typeof source !== 'string' && !Array.isArray(source)) return null;
  const { clips, ...reading } = options;
  const opened = clips ? openSource(source, options, signal) : openListed(source, reading, signal);
  if (opened.description.kind === 'tar') return null;
  const tables = await opened.tables?.();
  if (tables && !isCounted) return tables.rows;
  if (tables?.mayHoldImages) return null;
  let count = 0;
  let position = 0;
  for await (const item of opened) {
    // Whoever counts them reads them.
    if (isListedTar(item)) return null;
    const { path } = item;
    if (!isCounted || isCounted(path, position)) count++;
    if (++position % INPUTS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    if (signal.aborted) return null;
  }
  return count;
}
