/** Merging the parts of a sharded dataset, compared with the source that was embedded. */
import { resolve } from 'node:path';
import { checkText, type Options } from '../../base/checks.js';
import { callback, readOptions, signal, unchecked, type Fields } from '../../base/options.js';
import type { Progress } from '../../base/progress.js';
import { mergeParts, type MergeSummary } from '../merge/merge.js';
import { SOURCE_FIELDS, type SourceOptions } from '../../photos/feeds/items/source-options.js';
import { openSource, type EmbedSource } from '../sources/open-source.js';

/** Options of {@link mergeDataset}. The source is read as `embedFolder` reads it. */
export interface MergeOptions extends SourceOptions {
  /**
   * The source that was embedded. Each of its inputs must be in a part.
   * @default undefined
   */
  readonly source: EmbedSource | undefined;
  /**
   * Stops the work when it fires. The call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called with how much is done, and of what.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

const MERGE_FIELDS: Fields<MergeOptions> = {
  ...SOURCE_FIELDS,
  source: unchecked(undefined),
  signal,
  onProgress: callback(),
};

/**
 * Merges the parts that `embedFolder` wrote with `shard` into one dataset: `metadata/`, with the rows numbered over all parts, and
 * a manifest that refers to the feature files where they are. If the parts do not fit together, nothing changes.
 *
 * @remarks You can add to the parts and merge again: the rows are then renumbered. The same parts give the same bytes. Memory: 48
 * to 96 bytes per input, and the metadata of one shard.
 * @param folder - The `out` of the parts.
 * @param given - See {@link MergeOptions}.
 * @throws {@link TapirError} `DATASET_INVALID` if there are no parts, parts of different counts, an input in two parts, or a
 * damaged file; `DATASET_INCOMPLETE` if parts are missing or unfinished, or if inputs of the source are in no part;
 * `DATASET_MISMATCH` if a part was made with other settings; `OUTPUT_LOCKED` while a process writes to a part; `SOURCE_INVALID`;
 * `OUTPUT_UNWRITABLE`.
 *
 * @example
 * ```ts
 * import { mergeDataset } from 'onnx-tapir';
 *
 * const { manifest, parts } = await mergeDataset('vectors', { source: 'photos' });
 * console.log(parts, manifest.counts); // 8 { inputs: 203, ok: 200, errors: 3 }
 * ```
 */
// oxlint-disable-next-line require-await -- a bad option rejects the promise
export async function mergeDataset(folder: string, given: Options<MergeOptions> = {}): Promise<MergeSummary> {
  const out = resolve(checkText('folder', folder));
  const options = readOptions(MERGE_FIELDS, given, 'mergeDataset');
  const { source } = options;
  if (source === undefined) return mergeParts(out, undefined, options);
  // Sources that cannot be opened are refused before anything is read.
  openSource(source, options, options.signal);
  return mergeParts(out, (clips) => openSource(source, { ...options, clips }, options.signal), options);
}
