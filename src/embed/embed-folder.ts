/** A folder of images → a dataset on disk. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import {
  checkBoolean,
  checkInteger,
  checkOneOf,
  checkText,
  invalidOption,
  withDefaults,
  type Given,
} from '../checks.js';
import { TapirError } from '../errors.js';
import type { DecodeLanes } from '../image/decode-lanes.js';
import { FORMATS_SHOWN } from '../image/format.js';
import type { Extractor } from '../extract/extractor.js';
import { identifyModel, type ModelIdentity } from '../extract/prune-model.js';
import { embedBatches, openDecodeLanes } from './embed-batches.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions } from './embed-options.js';
import { itemsOf, type EmbedSource } from './embedder.js';
import { folderNames } from './folder-name.js';
import type { ImageError } from './loader.js';
import { createManifest, DATASET_FORMAT, type Manifest } from './manifest.js';
import { ReducedImages } from './reduced-images.js';
import { ShardWriter } from './shards.js';
import { unwritable, writeAtomically } from './sinks/atomic-file.js';
import { makeFolder } from './sinks/make-folder.js';
import type { SourceItem } from './source.js';

/** How far a run is. */
export interface EmbedProgress {
  /** Inputs finished, failed ones included. */
  readonly done: number;
  readonly failed: number;
  readonly seconds: number;
}

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
   * Inputs per file, an integer from 1 to 10 million, raised to a multiple of the batch.
   * @default 16384
   */
  readonly shardSize: number;
  /**
   * Replace a dataset that is already there.
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
  shardSize: 16_384,
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
  readonly out: string;
  readonly manifest: Manifest;
  /** The first 1000 failures in input order; all of them are in the metadata. */
  readonly failures: readonly EmbedFailure[];
}

const MANIFEST = 'manifest.json';
/** Marks a folder as ours while the manifest is not yet there. */
const MARKER = '.tapir-unfinished';
const MAX_FAILURES_LISTED = 1000;

/**
 * Embeds a folder of images into a dataset: features as `.npy`, a metadata row per input as Parquet, and a manifest.
 *
 * An image that cannot be read becomes a metadata row with its error, and the run goes on. The manifest is written last: a
 * folder without it is no finished dataset, and the next run into it starts over.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - A folder (searched recursively, in the order of the paths' bytes), or paths or file contents.
 * @param given - See {@link EmbedFolderOptions}; `out` is required.
 * @returns The manifest and the failures.
 * @throws {@link TapirError} `OPTION_INVALID`; `SOURCE_INVALID` for a folder without images; `OUTPUT_EXISTS` if `out` holds
 * something else, or a finished dataset without `overwrite`; `OUTPUT_UNWRITABLE`; those of {@link embedImages}.
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
  given: Given<EmbedFolderOptions> & { readonly out: string },
): Promise<EmbedSummary> {
  return embedWarm(extractor, source, given);
}

/** {@link embedFolder}, with decoding threads of the transform that may have been started before. */
export async function embedWarm(
  extractor: Extractor,
  source: EmbedSource,
  given: Given<EmbedFolderOptions> & { readonly out: string },
  warm?: DecodeLanes,
): Promise<EmbedSummary> {
  const options = withDefaults<EmbedFolderOptions>(
    { ...EMBED_FOLDER_DEFAULTS, out: '' },
    given,
    'embedFolder',
  );
  const setup = setUpEmbedding(extractor, options);
  const out = resolve(checkText('out', options.out));
  checkOneOf('dtype', options.dtype, ['float32', 'float16']);
  checkBoolean('overwrite', options.overwrite);
  const shardSize =
    Math.ceil(checkInteger('shardSize', options.shardSize, 1, 1e7) / setup.batch) * setup.batch;
  if (options.onProgress !== undefined && typeof options.onProgress !== 'function') {
    throw invalidOption('onProgress', 'a function', options.onProgress);
  }
  const folders = folderNames(extractor.outputs.map((output) => output.name));
  const items = await nonEmpty(itemsOf(source), source);
  await using lanes = openDecodeLanes(extractor, setup, warm);
  lanes.warm();
  // At the start of the run: the file may be replaced while it is embedded.
  const identifying = identifyModel(extractor.model);
  // Awaited below.
  identifying.catch(() => undefined);
  await prepareFolder(out, options.overwrite);
  const writer = new ShardWriter(out, folders, shardSize, options.dtype === 'float16');
  const failures: EmbedFailure[] = [];
  const started = performance.now();
  const seconds = (): number => Math.round(performance.now() - started) / 1000;
  const reduced = new ReducedImages();
  let model: ModelIdentity;
  let done = 0;
  let failed = 0;
  try {
    await writer.open();
    for await (const batch of embedBatches(extractor, items, setup, lanes)) {
      await writer.append(batch);
      for (const item of batch.items) {
        const { path, error } = item;
        if (error && ++failed <= MAX_FAILURES_LISTED) failures.push({ path, error });
        reduced.add(item);
      }
      done += batch.items.length;
      options.onProgress?.({ done, failed, seconds: seconds() });
    }
    model = await identifying;
    await writer.finish();
  } catch (error) {
    await writer.discard();
    throw error;
  }
  const { shards, features } = writer;
  const facts = {
    inputs: done,
    rows: done - failed,
    seconds: seconds(),
    folders,
    features,
    shards,
    model,
    reduced: reduced.summary,
    decoder: lanes.decoder,
  };
  const manifest = createManifest(extractor, setup, facts);
  await writeAtomically(join(out, MANIFEST), Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  await rm(join(out, MARKER), { force: true });
  return { out, manifest, failures };
}

/** A source with at least one item: an empty one is refused before anything is written. */
async function nonEmpty(
  items: AsyncIterable<SourceItem>,
  source: EmbedSource,
): Promise<AsyncIterable<SourceItem>> {
  const iterator = items[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true) {
    const label = typeof source === 'string' ? source : 'the list of images';
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

/** Makes the folder, or clears what an earlier run of ours left in it; never touches anything else. */
async function prepareFolder(out: string, overwrite: boolean): Promise<void> {
  let entries: string[];
  try {
    await makeFolder(out);
    entries = await readdir(out);
  } catch (error) {
    throw unwritable(out, error);
  }
  const isFinished = entries.includes(MANIFEST) && (await isDataset(join(out, MANIFEST)));
  if (isFinished && !overwrite)
    throw exists(out, 'it holds a finished dataset; choose another folder, or overwrite it (--overwrite)');
  if (!isFinished && entries.length > 0 && !entries.includes(MARKER)) {
    throw exists(out, 'it is not empty, and no dataset; choose another folder');
  }
  if (!isFinished && (await isWritten(join(out, MARKER)))) throw exists(out, 'another run is writing to it');
  try {
    // The marker first: from here on the folder is known as unfinished.
    await writeAtomically(
      join(out, MARKER),
      Buffer.from(JSON.stringify({ pid: process.pid, host: hostname() })),
    );
    for (const entry of [MANIFEST, 'features', 'metadata'])
      await rm(join(out, entry), { recursive: true, force: true });
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(out, error);
  }
}

/** Whether the run that left a marker is still alive on this machine. */
async function isWritten(marker: string): Promise<boolean> {
  try {
    const { pid, host } = JSON.parse(await readFile(marker, 'utf8')) as { pid?: number; host?: string };
    if (typeof pid !== 'number' || host !== hostname() || pid === process.pid) return false;
    process.kill(pid, 0);
    return true;
  } catch {
    return false; // No marker, an unreadable one, or no such process.
  }
}

/** Whether a manifest is ours; other programs write files of that name too. */
async function isDataset(manifest: string): Promise<boolean> {
  try {
    return (
      (JSON.parse(await readFile(manifest, 'utf8')) as Partial<Manifest> | null)?.format === DATASET_FORMAT
    );
  } catch {
    return false; // Unreadable or no JSON: not written by us, so the folder is refused as somebody else's.
  }
}

function exists(path: string, reason: string): TapirError<'OUTPUT_EXISTS'> {
  return new TapirError('OUTPUT_EXISTS', `cannot write to "${path}": ${reason}`, { details: { path } });
}
