/** Merges the parts of a sharded dataset into one dataset, which refers to their feature files where they are. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable, writeAtomically } from '../../base/atomic-file.js';
import { listShardFiles } from '../files/dataset-folder.js';
import { MANIFEST_FILE, METADATA } from '../files/file-names.js';
import { checkUnlocked, lockFolder } from '../../base/folder-lock.js';
import { joinKinds, type ColumnKinds } from '../formats/carried-columns.js';
import { MetadataTable, readColumnKinds, readMetadata } from '../formats/metadata.js';
import { partsOf } from '../records/dataset-identity.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import type { ClipPlan } from '../../photos/images/transform/clip-options.js';
import { makeFolder } from '../../base/make-folder.js';
import type { Progress } from '../../base/progress.js';
import { encodeManifest, rowsOf, type Manifest } from '../files/manifest.js';
import { checkInputs, checkSource } from './merge-check.js';
import { checkSameJournals, mergeManifests, readParts, type Part } from './merge-parts.js';

/** The result of a merge. */
export interface MergeSummary {
  readonly out: string;
  readonly manifest: Manifest;
  /** The number of parts. */
  readonly parts: number;
}

interface MergeRun {
  readonly signal: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/**
 * Merges the parts in a folder.
 *
 * @param source - Opens what was embedded, cut into the clips of the dataset; each of its inputs must be in a part. Undefined skips that
 * check.
 * @throws {@link TapirError} `DATASET_INVALID`, `DATASET_INCOMPLETE`, `DATASET_MISMATCH`, `OUTPUT_LOCKED`, `OUTPUT_UNWRITABLE`;
 * what `source` throws.
 */
export async function mergeParts(
  out: string,
  source: ((clips: ClipPlan | undefined) => AsyncIterable<SourceItem>) | undefined,
  { signal, onProgress }: MergeRun,
): Promise<MergeSummary> {
  const parts = await readParts(out);
  // Two merges at once would write the same files.
  await using _lock = await lockFolder(out);
  const known = await checkInputs(out, parts, signal);
  if (source) await checkSource(out, source(parts[0]!.journal.identity.clips), known, signal);
  const manifest = mergeManifests(parts);
  const total = manifest.shards.length;
  const tell = (done: number): void => onProgress?.({ done, total, unit: 'files', what: 'writing rows' });
  await writeMerged(out, parts, manifest, tell, signal);
  return { out, manifest, parts: parts.length };
}

async function writeMerged(
  out: string,
  parts: readonly Part[],
  manifest: Manifest,
  tell: (done: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const writer = new ChangedFiles(out);
  await makeFolder(join(out, METADATA));
  const columns = await columnsOf(parts);
  let number = 0;
  let firstRow = 0;
  for (const { folder, manifest: part, journal } of parts) {
    for (const { metadata } of part.shards) {
      signal?.throwIfAborted();
      tell(number);
      const table = new MetadataTable(partsOf(journal.identity));
      for await (const input of readMetadata(join(folder, metadata)))
        if (input.status !== 'removed')
          table.add({ ...input, row: input.row === null ? null : firstRow + input.row });
      await writer.write(manifest.shards[number++]!.metadata, await table.encode(columns));
    }
    firstRow += rowsOf(part);
  }
  await writer.removeOthers(new Set(manifest.shards.map(({ metadata }) => metadata)));
  // The parts must not have changed since they were read.
  for (const { folder } of parts) await checkUnlocked(folder);
  await checkSameJournals(parts);
  await writer.write(MANIFEST_FILE, encodeManifest(manifest));
}

/** The columns that the metadata of any part carries. */
async function columnsOf(parts: readonly Part[]): Promise<ColumnKinds> {
  const kinds: ColumnKinds[] = [];
  for (const { folder, manifest } of parts)
    for (const { metadata } of manifest.shards) kinds.push(await readColumnKinds(join(folder, metadata)));
  return joinKinds(kinds);
}

/** Writes files whose content differs. It removes the manifest before it changes the first file that the manifest names. */
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
    // The manifest itself is replaced atomically.
    if (name !== MANIFEST_FILE) await this.#open();
    await writeAtomically(path, bytes);
  }

  /** Removes metadata files that an earlier merge left. */
  async removeOthers(names: ReadonlySet<string>): Promise<void> {
    try {
      for (const name of await listShardFiles(this.#out)) {
        if (names.has(name) || !name.startsWith(`${METADATA}/`)) continue;
        await this.#open();
        await rm(join(this.#out, name), { force: true });
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
