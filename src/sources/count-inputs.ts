/** How many inputs a source has, for those who want to know how long it will take. */
import { openSource, type EmbedSource } from './open-source.js';
import type { SourceOptions } from './items/source-options.js';

/** Looked at between two pauses, in which the run goes on. */
const INPUTS_AT_ONCE = 512;

/**
 * Counts the inputs of a source, or some of them, beside the run that reads it.
 *
 * @param isCounted - Whether an input counts, by its path and its position in the source; without it, all do.
 * @returns Null for one that can be gone through only once (a stream, an iterator), or only by unpacking it (a tar).
 * @throws {@link TapirError} as the source does.
 */
export async function countInputs(
  source: EmbedSource,
  options: SourceOptions,
  signal: AbortSignal,
  isCounted?: (path: string | null, position: number) => boolean,
): Promise<number | null> {
  if (Array.isArray(source) && !isCounted) return source.length;
  if (typeof source !== 'string' && !Array.isArray(source)) return null;
  const opened = openSource(source, options, signal);
  if (opened.description.kind === 'tar') return null;
  let count = 0;
  let position = 0;
  for await (const { path } of opened) {
    if (!isCounted || isCounted(path, position)) count++;
    if (++position % INPUTS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    if (signal.aborted) return null;
  }
  return count;
}
