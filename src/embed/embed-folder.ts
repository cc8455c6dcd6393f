/** A folder of images → a dataset on disk. */
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  checkBoolean,
  checkInteger,
  checkOneOf,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import type { DecodeLanes } from '../image/lanes/decode-lanes.js';
import { FORMATS_SHOWN } from '../image/formats/image-format.js';
import type { Extractor } from '../extract/extractor.js';
import { identifyFile } from '../model/identify-model.js';
import { clearLeftovers, takeFolder } from '../dataset/dataset-folder.js';
import { checkIdentity } from '../dataset/dataset-identity.js';
import { DatasetInputs } from '../dataset/dataset-inputs.js';
import { DatasetRun, type RunPlan } from './dataset-run.js';
import { describeIdentity, describeRun } from './describe-run.js';
import { openDecodeLanes, type EmbeddedBatch } from './embed-batches.js';
import { countInputs } from '../sources/count-inputs.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions, type EmbedSetup } from './embed-options.js';
import { checkFailures, readFailureLimit, type FailureLimit, type MaxFailures } from './failure-limit.js';
import { folderNames } from '../dataset/folder-name.js';
import { belongsTo, checkShard, takeShare, type Shard } from '../dataset/input-names.js';
import { JournalWriter } from '../dataset/journal.js';
import type { ImageError } from './loader.js';
import { MANIFEST_FILE } from '../dataset/file-names.js';
import { createManifest, encodeManifest, type Manifest } from '../dataset/manifest.js';
import { makePart } from '../dataset/parts.js';
import { ProgressMeter, type EmbedProgress } from './progress.js';
import { writeAtomically } from '../base/atomic-file.js';
import { FEATURE_FORMATS, type FeatureFormat } from '../dataset/formats/feature-files.js';
import type { SourceItem } from '../sources/items/source-item.js';
import { openSource, type EmbedSource, type OpenedSource } from '../sources/open-source.js';

/** Options of {@link embedFolder}. */
export interface EmbedFolderOptions extends EmbedOptions {
  /** Folder to write; made if absent. */
  readonly out: string;
  /**
   * Element type of float32 features on disk.
   * @default 'float32'
   */
  readonly dtype: 'float32' | 'float16';
  /**
   * Format of the feature files: `npy` (NumPy), `arrow` (Arrow IPC) or `parquet`. The metadata is always Parquet.
   * @default 'npy'
   */
  readonly format: FeatureFormat;
  /**
   * Inputs per file, an integer from 1 to 10 million, raised to a multiple of the batch. A run that is killed loses at most the
   * inputs of one file.
   * @default 8192
   */
  readonly shardSize: number;
  /**
   * End the run with `TOO_MANY_FAILURES` when more inputs have failed: a number of them, or a share such as `'1%'` (of at least 100
   * that are done).
   * @default undefined
   */
  readonly maxFailures: MaxFailures | undefined;
  /**
   * Embed only the inputs of one shard, into the part `out/parts/i-of-n`: one of several processes, which need not know of each
   * other; {@link mergeDataset} makes one dataset of the parts. An input belongs to shard SHA-256(name) mod count, whatever else
   * is in the source; bytes, which have no name, to that of their position mod count.
   * @default undefined
   */
  readonly shard: Shard | undefined;
  /**
   * Throw away a dataset that is already there, instead of adding to it; of a sharded one, this part.
   * @default false
   */
  readonly overwrite: boolean;
  /**
   * Called after each batch.
   * @default undefined
   */
  readonly onProgress: ((progress: EmbedProgress) => void) | undefined;
}

export const EMBED_FOLDER_DEFAULTS: Omit<EmbedFolderOptions, 'out'> = {
  ...EMBED_DEFAULTS,
  dtype: 'float32',
  format: 'npy',
  shardSize: 8192,
  maxFailures: undefined,
  shard: undefined,
  overwrite: false,
  onProgress: undefined,
};

/** An input that could not be embedded. */
export interface EmbedFailure {
  readonly path: string | null;
  readonly error: ImageError;
}

/** What a run did. */
export interface EmbedSummary {
  /** The folder that was written: with `shard`, that of the part. */
  readonly out: string;
  readonly manifest: Manifest;
  /** The first 1000 failures of this run in input order; all of them are in the metadata. */
  readonly failures: readonly EmbedFailure[];
  /** Inputs that this run tried: new ones, and those that had failed or changed. */
  readonly embedded: number;
  /** Those of them that failed. */
  readonly failed: number;
  /** Inputs that the dataset held already, as they are. */
  readonly skipped: number;
  /** Inputs that the source gave more than once; each is embedded once. */
  readonly duplicates: number;
}

const MAX_FAILURES_LISTED = 1000;

/**
 * Embeds a folder of images into a dataset: features as `.npy` (or another format), a metadata row per input as Parquet, a
 * journal of what is finished, and a manifest.
 *
 * An image that cannot be read becomes a metadata row with its error, and the run goes on. The manifest is written last: a
 * folder without it is no finished dataset. The same call goes on from where a run was killed, and on a finished dataset it
 * embeds what is new, what had failed, and files whose size or time has changed (or whose content has, with `checksum`); rows
 * are appended, none is moved.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - A folder (searched recursively, in the order of the paths' bytes), or paths or file contents.
 * @param given - See {@link EmbedFolderOptions}; `out` is required.
 * @returns The manifest and the failures.
 * @throws {@link TapirError} `OPTION_INVALID`; `SOURCE_INVALID` for a folder without images; `OUTPUT_EXISTS` if `out` holds
 * something else, or parts of another count; `DATASET_MISMATCH` if it holds a dataset of another model, request or transform;
 * `OUTPUT_LOCKED` while another process writes to it; `OUTPUT_UNWRITABLE` (finished shards are kept); `TOO_MANY_FAILURES`;
 * those of {@link embedImages}.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, embedFolder } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * const { manifest, failures } = await embedFolder(extractor, 'photos', { out: 'vectors' });
 * console.log(manifest.counts, failures.length); // { inputs: 203, ok: 200, errors: 3 } 3
 * await extractor.close();
 * ```
 */
export function embedFolder(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<EmbedFolderOptions> & { readonly out: string },
): Promise<EmbedSummary> {
  return embedWarm(extractor, source, given);
}

/** {@link embedFolder}, with decoding threads of the transform that may have been started before. */
export async function embedWarm(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<EmbedFolderOptions> & { readonly out: string },
  warm?: DecodeLanes,
): Promise<EmbedSummary> {
  const { setup, plan, ...options } = readOptions(extractor, given);
  const { shard } = options;
  const opened = openSource(source, setup.source, setup.signal);
  const { location } = opened.description;
  const all = await nonEmpty(opened);
  // A share may be empty: the source is not.
  const items = shard ? takeShare(all, shard) : all;
  await using lanes = openDecodeLanes(extractor, setup, warm);
  lanes.warm();
  // At the start of the run: the file may be replaced while it is embedded.
  const identifying = identifyFile(extractor.model.source);
  // Awaited below.
  identifying.catch(() => undefined);
  const counting = new AbortController();
  const out = shard ? await makePart(options.out, shard) : options.out;
  const folder = await takeFolder(out, options.overwrite);
  try {
    // What the parts were merged into would name files that are not there any more.
    if (shard && options.overwrite) await rm(join(options.out, MANIFEST_FILE), { force: true });
    const { externalFiles } = extractor.model.plan.kept;
    const model = { ...(await identifying), externalFiles };
    const identity = describeIdentity(extractor, model, setup, options);
    if (folder.before) checkIdentity(out, folder.before.identity, identity);
    const inputs = await DatasetInputs.read(out, folder.before?.shards ?? []);
    await clearLeftovers(folder, plan.folders.values());
    const meter = new ProgressMeter(extractor);
    let counted: number | null = null;
    if (options.onProgress) {
      // A source that cannot be counted shows its error where it is read.
      const isOurs = shard && ((path: string | null, position: number) => belongsTo(shard, path, position));
      void countInputs(source, setup.source, counting.signal, isOurs).then(
        (count) => (counted = count),
        () => undefined,
      );
    }
    const failures: EmbedFailure[] = [];
    const pending = { isUnique: opened.description.kind === 'folder', checksum: options.checksum };
    const onBatch = (batch: EmbeddedBatch, skipped: number): void => {
      meter.add(batch);
      for (const { path, error } of batch.items)
        if (error && failures.length < MAX_FAILURES_LISTED) failures.push({ path, error });
      options.onProgress?.(meter.progress(skipped, counted));
      checkFailures(options.limit, meter, false);
    };
    await using journal = await JournalWriter.open(out, identity, folder.before);
    const run = new DatasetRun(
      folder,
      { ...plan, extractor, setup, lanes, pending, onBatch },
      journal,
      // From here on the dataset is unfinished.
      () => rm(join(out, MANIFEST_FILE), { force: true }),
    );
    const result = await run.embed(items, inputs);
    const manifest = createManifest(describeRun(extractor, setup, model), {
      ...result,
      seconds: meter.seconds,
      source: { kind: opened.description.kind, location: location === null ? null : resolve(location) },
      format: plan.format,
      folders: plan.folders,
    });
    await writeAtomically(join(out, MANIFEST_FILE), encodeManifest(manifest));
    checkFailures(options.limit, meter, true);
    const { skipped, duplicates } = result;
    return { out, manifest, failures, embedded: meter.done, failed: meter.failed, skipped, duplicates };
  } finally {
    counting.abort();
    await folder.lock.release();
  }
}

interface CheckedOptions extends EmbedFolderOptions {
  readonly setup: EmbedSetup;
  readonly limit: FailureLimit | undefined;
  readonly plan: Pick<RunPlan, 'folders' | 'shardSize' | 'format' | 'half'>;
}

/** Checks the options against each other and the extractor. Throws `OPTION_INVALID`. */
function readOptions(extractor: Extractor, given: Options<EmbedFolderOptions>): CheckedOptions {
  const options = withDefaults<EmbedFolderOptions>(
    { ...EMBED_FOLDER_DEFAULTS, out: '' },
    given,
    'embedFolder',
  );
  const setup = setUpEmbedding(extractor, options);
  const out = resolve(checkText('out', options.out));
  checkOneOf('dtype', options.dtype, ['float32', 'float16']);
  checkOneOf('format', options.format, FEATURE_FORMATS);
  checkBoolean('overwrite', options.overwrite);
  const shardSize =
    Math.ceil(checkInteger('shardSize', options.shardSize, 1, 1e7) / setup.batch) * setup.batch;
  if (options.onProgress !== undefined && typeof options.onProgress !== 'function') {
    throw invalidOption('onProgress', 'a function', options.onProgress);
  }
  const limit = readFailureLimit(options.maxFailures);
  const shard = options.shard === undefined ? undefined : checkShard('shard', options.shard);
  const folders = folderNames(extractor.outputs.map((output) => output.name));
  const plan = { folders, shardSize, format: options.format, half: options.dtype === 'float16' };
  return { ...options, out, shard, setup, limit, plan };
}

/** A source with at least one item: an empty one is refused before anything is written. */
async function nonEmpty(source: OpenedSource): Promise<AsyncIterable<SourceItem>> {
  const iterator = source[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true) {
    const label = source.description.location ?? 'the source';
    const reason = `no image is in it (${FORMATS_SHOWN}, by file extension)`;
    throw new TapirError('SOURCE_INVALID', `"${label}" cannot be embedded: ${reason}`, {
      details: { source: label, reason },
    });
  }
  return (async function* () {
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => iterator };
  })();
}
