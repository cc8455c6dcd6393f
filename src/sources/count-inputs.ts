/** How many inputs a source has, for those who want to know how long it will take. */
import { isOwn, type Shard } from './items/input-names.js';
import { openSource, type EmbedSource } from './open-source.js';
import type { SourceOptions } from './items/source-options.js';

/** Looked at between two pauses, in which the run goes on. */
const INPUTS_AT_ONCE = 512;

/**
 * Counts the inputs of a source, or of a shard of it, beside the run that reads it.
 *
 * @returns Null for one that can be gone through only once (a stream, an iterator), or only by unpacking it (a tar).
 * @throws {@link TapirError} as the source does.
 */
export async function countInputs(
  source: EmbedSource,
  options: SourceOptions,
  signal: AbortSignal,
  shard?: Shard,
): Promise<number | null> {
  if (Array.isArray(source) && !shard) return source.length;
  if (typeof source !== 'string' && !Array.isArray(source)) return null;
  const opened = openSource(source, options, signal);
  if (opened.description.kind === 'tar') return null;
  let count = 0;
  let position = 0;
  for await (const { path } of opened) {
    if (!shard || isOwn(path, position, shard)) count++;
    if (++position % INPUTS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    if (signal.aborted) return null;
  }
  return count;
}
