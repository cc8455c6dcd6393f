/** A random sample of a source. */
import { SOURCE_DEFAULTS, type SourcePlan } from '../../photos/feeds/items/source-options.js';
import { openSource, type EmbedSource } from './open-source.js';
import { sampleItems, type Sample } from './sampling/sample-items.js';

/** Draws at most `size` images of a source with a fixed seed. Throws `SOURCE_INVALID`. */
export function sampleSource(
  source: EmbedSource,
  size: number,
  options: SourcePlan = SOURCE_DEFAULTS,
  signal?: AbortSignal,
): Promise<Sample> {
  return sampleItems(openSource(source, options, signal), size);
}
