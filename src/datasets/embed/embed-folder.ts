/** Embeds the images of a source into a dataset on disk. */
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import type { Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { cleanTemporary } from '../../base/temporary-folder.js';
import { clearLeftovers, takeFolder, type DatasetFolder } from '../files/dataset-folder.js';
import { checkSame, compareIdentities, latestWeights } from '../records/dataset-identity.js';
import { DatasetInputs } from '../files/dataset-inputs.js';
import { latestComparison } from '../records/float32-comparison.js';
import { MANIFEST_FILE } from '../files/file-names.js';
import { belongsTo, takeShare } from '../records/input-names.js';
import { piecesOf } from '../files/join-pieces.js';
import { JournalWriter, type JournalContent, type JournalOpen, type JournalShard } from '../files/journal.js';
import {
  createManifest,
  encodeManifest,
  type EmbeddedManifest,
  type SourceRecord,
} from '../files/manifest.js';
import { makePart } from '../merge/parts.js';
import type { Extractor } from '../../extract/extractor.js';
import { FORMATS_SHOWN } from '../../photos/images/formats/image-format.js';
import type { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import { identifyFile } from '../../run/model/prune/identify-model.js';
import { countInputs } from '../sources/count-inputs.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { describeUnread, type UnreadCounts } from '../sources/items/unread-files.js';
import { openSource, type EmbedSource, type OpenedSource } from '../sources/open-source.js';
import { DatasetRun } from './dataset-run.js';
import { describeIdentity, describeRun } from './describe-run.js';
import { openDecodeLanes, type EmbeddedBatch } from './embed-batches.js';
import { readFolderOptions, type EmbedFolderOptions, type EmbedFolderSetup } from './embed-folder-options.js';
import { checkFailures } from './failure-limit.js';
import type { ImageError } from '../../photos/images/file/image-errors.js';
import { planRemoval } from './missing-inputs.js';
import { createPrecisionCheck } from './precision-check.js';
import { ReusableRows } from './reuse-rows.js';
import { ProgressMeter } from './progress.js';
import { identifyWeights } from './run-weights.js';

/** An input that could not be embedded. */
export interface EmbedFailure {
  readonly path: string | null;
  readonly error: ImageError;
}

/** The result of a run. */
export interface EmbedSummary {
  /** The folder that was written; with `shard`, the folder of the part. */
  readonly out: string;
  readonly manifest: EmbeddedManifest;
  /** The first 1000 failures of this run, in input order. The metadata has all of them. */
  readonly failures: readonly EmbedFailure[];
  /** The number of inputs that this run tried: new ones, and those that had failed or changed. */
  readonly embedded: number;
  /** The number of those inputs that failed. */
  readonly failed: number;
  /** The number of inputs whose rows were copied from another dataset: `reuse`. */
  readonly reused: number;
  /** The number of inputs that the dataset already held unchanged. */
  readonly skipped: number;
  /** The number of repetitions in the source. Each input is embedded once. */
  readonly duplicates: number;
  /** The number of inputs that were embedded again, as their file has changed or another file has their name. Their former rows are dead. */
  readonly changed: number;
  /** The number of inputs of the dataset that the source does not have. They stay in the dataset. */
  readonly missing: number;
  /** The number of inputs that this run marked as removed: `removeMissing`. */
  readonly removed: number;
  /**
   * Files that look like images and are not read (HEIC without libheif-js, JPEG XL, SVG, camera raw): their number by extension,
   * such as `{ '.heic': 12 }`. Links that were left out count as `'symbolic link'` and `'hard link'`. The manifest has it as `run.unreadFiles`.
   */
  readonly unreadFiles: UnreadCounts;
}

const MAX_FAILURES_LISTED = 1000;

/**
 * Embeds a folder of images into a dataset: feature files (`.npy` or another format), metadata with a row per input (Parquet), a
 * journal of finished shards, and a manifest.
 *
 * An image that cannot be read becomes a metadata row with its error, and the run continues. The manifest is written last: a folder without
 * a manifest is an unfinished dataset. A run that `signal` stops or an error ends keeps what it has done; one that is killed loses
 * `shardSeconds` at most. Repeat the call to resume it, or to add to a finished dataset. It embeds new inputs, inputs that failed, and
 * files whose size or time changed. With `checksum`, and for bytes without a time, the content decides. Rows are appended. Existing rows
 * never move. `removeMissing` marks inputs that are gone as removed; they are embedded again if they come back.
 *
 * @param extractor - From {@link createFeatureExtractor}. It stays open.
 * @param source - A folder (searched recursively, in the order of the paths' bytes), or paths or file contents.
 * @param given - See {@link EmbedFolderOptions}; `out` is required.
 * @returns The manifest and the failures.
 * @throws {@link TapirError} `OPTION_INVALID`; `SOURCE_INVALID` for a folder without images, or with
 * `removeMissing` for a source with no image of the dataset; `OUTPUT_EXISTS` if `out` holds
 * something else, or parts of another count; `DATASET_MISMATCH` if it holds a dataset of another model, other weights, another
 * request or transform; `OUTPUT_LOCKED` while another process writes to it; `OUTPUT_UNWRITABLE` (what was saved before is kept);
 * `TOO_MANY_FAILURES`; `PRECISION_TOO_LOW`; the errors of {@link embedImages}.
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

/** What may have been started before a run. */
interface Warm {
  /** Decoding threads of the same transform. */
  readonly lanes?: DecodeLanes;
  /** The same model in float32, for a run in another precision that compares with it. */
  readonly exact?: Promise<Extractor> | undefined;
  /** What a command was told, for the manifest. */
  readonly options?: Readonly<Record<string, unknown>>;
}

/** {@link embedFolder}, with what was started before. */
export async function embedWarm(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<EmbedFolderOptions> & { readonly out: string },
  { lanes: warm, exact, options: told }: Warm = {},
): Promise<EmbedSummary> {
  const options = readFolderOptions(extractor, given);
  const { setup, shard } = options;
  const opened = openSource(source, setup.source, setup.signal);
  await using all = await nonEmpty(opened);
  // The source must not be empty, but a share of it may be.
  const shareOf = (given: AsyncIterable<SourceItem>) => (shard ? takeShare(given, shard) : given);
  await using lanes = openDecodeLanes(extractor, setup, warm);
  lanes.warm();
  void cleanTemporary();
  // Begins early, so that the folder is prepared in the meantime. prepare() gets the error.
  identifyFile(extractor.model.source).catch(() => undefined);
  const out = shard ? await makePart(options.out, shard) : options.out;
  const folder = await takeFolder(out, options.overwrite);
  /** Stops the work beside the run. */
  const ending = new AbortController();
  try {
    const { model, inputs, weights, identity } = await prepare(extractor, folder, options, ending.signal);
    const { kind, location } = opened.description;
    const record: SourceRecord = { kind, location: location === null ? null : resolve(location) };
    const meter = new ProgressMeter(extractor);
    const failures: EmbedFailure[] = [];
    const total = countBeside(source, options, ending.signal);
    const onBatch = (batch: EmbeddedBatch, skipped: number): void => {
      meter.add(batch);
      for (const { path, error } of batch.items)
        if (error && failures.length < MAX_FAILURES_LISTED) failures.push({ path, error });
      options.onProgress?.(meter.progress(skipped, total()));
      checkFailures(options.limit, meter, false);
    };
    const reread = kind === 'tar' || kind === 'folder' ? () => shareOf(opened) : undefined;
    const pending = { isUnique: kind === 'folder', checksum: options.checksum, reread };
    const { choice, minCosine } = options;
    // What was compared to choose counts.
    const before = latestComparison(recordsOf(folder.before)) ?? choice?.againstFloat32 ?? undefined;
    await using check = createPrecisionCheck(extractor, setup, { before, minCosine, exact });
    await using journal = await JournalWriter.open(out, identity, folder.before);
    const removal = options.removeMissing ? planRemoval(opened.description, setup.source.clips) : undefined;
    const reuse =
      options.reuse.length > 0
        ? await ReusableRows.open(options.reuse, identity, await weights())
        : undefined;
    const plan = {
      ...options.plan,
      reuse,
      extractor,
      setup,
      lanes,
      pending,
      saveMs: 1000 * options.shardSeconds,
      choice,
      check,
      weights,
      removal,
      onBatch,
    };
    // The first shard makes an earlier manifest wrong.
    const dropManifest = () => rm(join(out, MANIFEST_FILE), { force: true });
    const run = new DatasetRun(folder, plan, journal, inputs, dropManifest);
    const { counts, ...written } = await run.embed(shareOf(all));
    const unreadFiles = opened.unread;
    const state = { ...options.plan, ...written, seconds: meter.seconds, source: record, unreadFiles };
    const described = { ...describeRun(extractor, setup, model), ...(told && { options: told }) };
    const manifest = createManifest(described, state);
    await writeAtomically(join(out, MANIFEST_FILE), encodeManifest(manifest));
    checkFailures(options.limit, meter, true);
    const { done: embedded, failed } = meter;
    return { out, manifest, failures, embedded, failed, ...counts, unreadFiles };
  } finally {
    ending.abort();
    await folder.lock.release();
  }
}

/** Compares the dataset in the folder with what this run asks for, reads its inputs, and removes unfinished shards. */
async function prepare(
  extractor: Extractor,
  folder: DatasetFolder,
  { setup, plan, shard, overwrite, dtype, format, out }: EmbedFolderSetup,
  ending: AbortSignal,
) {
  // A merged manifest would name files of this part that no longer exist.
  if (shard && overwrite) await rm(join(out, MANIFEST_FILE), { force: true });
  const { path, before } = folder;
  const { source: file, plan: cut } = extractor.model;
  const { externalFiles } = cut.kept;
  const model = { ...(await identifyFile(file)), externalFiles };
  const identity = describeIdentity(extractor, model, setup, { dtype, format });
  if (before) checkSame(path, compareIdentities(before.identity, identity));
  const known = before && latestWeights(before.runs);
  const weights = await identifyWeights(path, file, externalFiles, known, ending);
  const rule = setup.source.name === 'url' ? 'url' : 'auto';
  const shards = [...(before?.shards ?? []), ...piecesOf(before?.open)];
  const inputs = await DatasetInputs.read(path, shards, plan.parts, rule);
  await clearLeftovers(folder, plan.folders.values());
  return { model, identity, weights, inputs };
}

function recordsOf(before: JournalContent | undefined): (JournalShard | JournalOpen)[] {
  return [...(before?.shards ?? []), ...(before?.open ? [before.open] : [])];
}

/** Gives the number of inputs of a source, or null while it is unknown. They are counted beside the run, from the first question on. */
function countBeside(
  source: EmbedSource,
  { setup, shard }: EmbedFolderSetup,
  ending: AbortSignal,
): () => number | null {
  let counted: number | null = null;
  let counting: Promise<unknown> | undefined;
  const isOurs = shard && ((path: string | null, position: number) => belongsTo(shard, path, position));
  return () => {
    counting ??= countInputs(source, setup.source, ending, isOurs).then(
      (count) => (counted = count),
      // The run itself gets the source's error.
      () => undefined,
    );
    return counted;
  };
}

/** Returns the items of a source that has at least one. Otherwise throws `SOURCE_INVALID`, before anything is written. */
async function nonEmpty(source: OpenedSource): Promise<AsyncIterable<SourceItem> & AsyncDisposable> {
  const iterator = source[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true) {
    const label = source.description.location ?? 'the source';
    const unread = describeUnread(source.unread).map((line) => `; ${line}`);
    const what = source.description.kind === 'glob' ? 'no image fits the pattern' : 'it holds no image';
    const reason = `${what} (${FORMATS_SHOWN}, by file extension)${unread.join('')}`;
    throw new TapirError('SOURCE_INVALID', `"${label}" cannot be embedded: ${reason}`, {
      details: { source: label, reason },
    });
  }
  let isTaken = false;
  return {
    async *[Symbol.asyncIterator]() {
      isTaken = true;
      yield first.value;
      yield* { [Symbol.asyncIterator]: () => iterator };
    },
    // What takes the items ends them. Otherwise, an archive would stay open.
    async [Symbol.asyncDispose]() {
      if (!isTaken) await iterator.return?.();
    },
  };
}
