/** The parts of a sharded dataset → one dataset that refers to their features in place. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { checkSignal, checkText, withDefaults, type Options } from '../base/checks.js';
import { checkUnlocked, lockFolder } from './folder-lock.js';
import { encodeManifest, MANIFEST_FILE, type Manifest } from './manifest.js';
import { checkSource, checkInputs } from './merge-check.js';
import { checkSameJournals, mergeManifests, readParts, rowsOf, type Part } from './merge-parts.js';
import { readMetadata } from './formats/read-metadata.js';
import { unwritable, writeAtomically } from '../base/atomic-file.js';
import { makeFolder } from './make-folder.js';
import { MetadataTable } from './formats/write-metadata.js';
import { openSource, type EmbedSource } from '../sources/open-source.js';
import { checkSourceOptions, SOURCE_DEFAULTS, type SourceOptions } from '../sources/items/source-options.js';

/** Options of {@link mergeDataset}; how the source is read, as for `embedFolder`. */
export interface MergeOptions extends SourceOptions {
  /**
   * What was embedded: each of its inputs must be in a part.
   * @default undefined
   */
  readonly source: EmbedSource | undefined;
  /**
   * Stops the work when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

const MERGE_DEFAULTS: MergeOptions = { ...SOURCE_DEFAULTS, source: undefined, signal: undefined };

/** What was merged. */
export interface MergeSummary {
  readonly out: string;
  readonly manifest: Manifest;
  readonly parts: number;
}

/**
 * Makes one dataset of the parts that `embedFolder` has written with `shard`: `metadata/` with the rows numbered over all parts, and
 * a manifest that refers to the feature files where they are. Nothing is changed unless the parts fit together.
 *
 * @remarks Parts may be added to and merged again; rows are then numbered anew. The same parts give the same bytes. Memory: 48 to 96
 * bytes an input, and a shard's metadata.
 * @param folder - The `out` of the parts.
 * @param given - See {@link MergeOptions}.
 * @throws {@link TapirError} `DATASET_INVALID` if there are no parts, parts of several counts, an input in two parts or a damaged
 * file; `DATASET_INCOMPLETE` if parts are missing or unfinished, or inputs of the source; `DATASET_MISMATCH` if a part was made in
 * another way; `OUTPUT_LOCKED` while a process writes to one; `SOURCE_INVALID`; `OUTPUT_UNWRITABLE`.
 *
 * @example
 * ```ts
 * import { mergeDataset } from 'onnx-tapir';
 *
 * const { manifest, parts } = await mergeDataset('vectors', { source: 'photos' });
 * console.log(parts, manifest.counts); // 8 { inputs: 203, ok: 200, errors: 3 }
 * ```
 */
export async function mergeDataset(folder: string, given: Options<MergeOptions> = {}): Promise<MergeSummary> {
  const out = resolve(checkText('folder', folder));
  const options = withDefaults(MERGE_DEFAULTS, given, 'mergeDataset');
  const signal = checkSignal(options.signal);
  const { source } = options;
  const reading = checkSourceOptions(options);
  const items = source === undefined ? undefined : openSource(source, reading, signal);
  const parts = await readParts(out);
  // Two that merge at once would write the same files.
  const lock = await lockFolder(out);
  try {
    const known = await checkInputs(out, parts, signal);
    if (items) await checkSource(out, items, known, signal);
    const manifest = mergeManifests(parts);
    await writeMerged(out, parts, manifest, signal);
    return { out, manifest, parts: parts.length };
  } finally {
    await lock.release();
  }
}

async function writeMerged(
  out: string,
  parts: readonly Part[],
  manifest: Manifest,
  signal: AbortSignal | undefined,
): Promise<void> {
  const writer = new ChangedFiles(out);
  try {
    await makeFolder(join(out, 'metadata'));
  } catch (error) {
    throw unwritable(out, error);
  }
  let number = 0;
  let firstRow = 0;
  for (const { folder, manifest: part } of parts) {
    for (const { metadata } of part.shards) {
      signal?.throwIfAborted();
      const table = new MetadataTable();
      for await (const input of readMetadata(join(folder, metadata)))
        table.add({ ...input, row: input.row === null ? null : firstRow + input.row });
      await writer.write(manifest.shards[number++]!.metadata, await table.encode());
    }
    firstRow += rowsOf(part);
  }
  await writer.removeOthers(new Set(manifest.shards.map(({ metadata }) => metadata)));
  // What was read must still be what the parts are.
  for (const { folder } of parts) await checkUnlocked(folder);
  await checkSameJournals(parts);
  await writer.write(MANIFEST_FILE, encodeManifest(manifest));
}

/** Writes files that are not there as they should be. Before the first one is changed, the manifest that names it is removed. */
class ChangedFiles {
  readonly #out: string;
  #isOpen = false;

  constructor(out: string) {
    this.#out = out;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.#out, name);
    const there = await readFile(path).catch(() => undefined);
    if (there?.equals(bytes)) return;
    // It is replaced as a whole itself.
    if (name !== MANIFEST_FILE) await this.#open();
    await writeAtomically(path, bytes);
  }

  /** Removes what an earlier merge has left. */
  async removeOthers(names: ReadonlySet<string>): Promise<void> {
    try {
      for (const name of await readdir(join(this.#out, 'metadata'))) {
        if (names.has(`metadata/${name}`)) continue;
        await this.#open();
        await rm(join(this.#out, 'metadata', name), { force: true });
      }
    } catch (error) {
      throw unwritable(this.#out, error);
    }
  }

  async #open(): Promise<void> {
    if (this.#isOpen) return;
    this.#isOpen = true;
    await rm(join(this.#out, MANIFEST_FILE), { force: true }).catch((error: unknown) => {
      throw unwritable(this.#out, error);
    });
  }
}
