/** The parts of a sharded dataset, read and compared; and the manifest of what they make together. */
import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import { compareIdentities } from './dataset-identity.js';
import { checkUnlocked } from '../base/folder-lock.js';
import type { Shard } from './input-names.js';
import { JOURNAL_FILE, readJournal, type JournalContent } from './journal.js';
import { MANIFEST_FILE, type FeatureRecord, type Manifest, type ShardRecord } from './manifest.js';
import { listParts, partPath, PARTS, readPartName } from './parts.js';
import { datasetInvalid, datasetUnreadable } from './formats/dataset-invalid.js';
import { readManifest } from './read-manifest.js';
import { summarizeReduced } from './reduced-images.js';
import { metadataFile } from './formats/write-metadata.js';

/** A finished part. */
export interface Part {
  /** Relative to the dataset: `parts/0-of-3`. */
  readonly name: string;
  readonly folder: string;
  readonly manifest: Manifest;
  readonly journal: JournalContent;
}

const MISSING_NAMED = 10;

/**
 * Reads the parts of a dataset, in order.
 *
 * @throws {@link TapirError} `DATASET_INVALID`, `DATASET_INCOMPLETE`, `DATASET_MISMATCH`, `OUTPUT_LOCKED`.
 */
export async function readParts(out: string): Promise<Part[]> {
  const names = await namesOf(out);
  const parts: Part[] = [];
  const unfinished: string[] = [];
  for (const name of names) {
    const folder = join(out, name);
    await checkUnlocked(folder);
    const journal = await readJournal(folder);
    if (!journal || !(await exists(join(folder, MANIFEST_FILE)))) unfinished.push(name);
    else parts.push({ name, folder, journal, manifest: await readManifest(folder) });
  }
  if (unfinished.length > 0) throw incomplete(out, 'parts are missing or unfinished', unfinished);
  for (const part of parts) checkPart(part, parts[0]!);
  return parts;
}

/** Paths of all parts that there must be. */
async function namesOf(out: string): Promise<string[]> {
  try {
    if ((await readdir(out)).includes(JOURNAL_FILE))
      throw datasetInvalid(out, 'it is a dataset by itself; there is nothing to merge');
    const found = await listParts(out);
    const shards = found.map((name) => {
      const shard = readPartName(name);
      if (shard) return shard;
      throw datasetInvalid(join(out, PARTS, name), 'its name is not that of a part');
    });
    const counts = [...new Set(shards.map(({ count }) => count))];
    const [count] = counts;
    if (count === undefined) throw datasetInvalid(out, 'there are no parts in it (tapir embed --shard i/n)');
    if (counts.length > 1) throw datasetInvalid(out, `it holds parts of ${counts.join(' and of ')}`);
    return Array.from({ length: count }, (_, index) => partPath({ index, count } satisfies Shard));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw datasetInvalid(out, 'there is no such folder', error);
    throw datasetUnreadable(out, error);
  }
}

/** The error for what is not there: the first ones by name. */
export function incomplete(
  path: string,
  what: string,
  names: readonly string[],
  count: number = names.length,
): TapirError<'DATASET_INCOMPLETE'> {
  const missing = names.slice(0, MISSING_NAMED);
  const more = count > missing.length ? `, … (${count} in all)` : '';
  return new TapirError(
    'DATASET_INCOMPLETE',
    `"${path}" cannot be merged yet: ${what}: ${missing.join(', ')}${more}; run tapir embed for them, then merge again`,
    { details: { path, missing, count } },
  );
}

/** A part must have been made as the first one was, and be what its journal says. */
function checkPart({ name, folder, manifest, journal }: Part, first: Part): void {
  const differences = compareIdentities(journal.identity, first.journal.identity);
  if (differences.length > 0) {
    const list = differences.map((one) => `${one.what} is ${one.there}, there ${one.asked}`).join('; ');
    throw new TapirError(
      'DATASET_MISMATCH',
      `"${name}" was made in another way than "${first.name}": ${list}; embed it again (--overwrite)`,
      { details: { path: folder, differences } },
    );
  }
  const isSame = manifest.shards.every(({ metadata }, at) => journal.shards[at]?.metadata === metadata);
  if (!isSame || manifest.shards.length !== journal.shards.length)
    throw datasetInvalid(folder, 'its manifest and its journal name different shards; run tapir embed again');
  for (const [key, { dtype, dims }] of Object.entries(manifest.features)) {
    const other = first.manifest.features[key];
    if (other && (other.dtype !== dtype || other.dims.join() !== dims.join()))
      throw datasetInvalid(folder, `rows of "${key}" are [${dims.join(', ')}] ${dtype}, not as elsewhere`);
  }
}

/** Checks that no run has added to a part since it was read. Throws `DATASET_INVALID`. */
export async function checkSameJournals(parts: readonly Part[]): Promise<void> {
  for (const { folder, journal } of parts) {
    const now = await readJournal(folder);
    if (now?.bytes !== journal.bytes || !(await exists(join(folder, MANIFEST_FILE))))
      throw datasetInvalid(folder, 'a run has added to it meanwhile; merge again');
  }
}

/** The rows of a part, dead ones included. */
export function rowsOf({ shards }: Manifest): number {
  const last = shards.at(-1);
  return last ? last.firstRow + last.rows : 0;
}

/** Describes the parts as one dataset: the same for the same parts. Rows are numbered over all parts, in their order. */
export function mergeManifests(parts: readonly Part[]): Manifest {
  const { latest, locations } = summarize(parts);
  const shards: ShardRecord[] = [];
  const runs: Manifest['runs'][number][] = [];
  let row = 0;
  for (const { name, manifest } of parts) {
    const firstShard = shards.length;
    for (const shard of manifest.shards) shards.push(moveShard(shard, name, shards.length, row));
    for (const run of manifest.runs) runs.push({ ...run, firstShard: firstShard + run.firstShard });
    row += rowsOf(manifest);
  }
  const sums = parts.flatMap(({ journal }) => journal.shards.map(({ reduced }) => reduced));
  return {
    ...latest,
    source: { ...latest.source, location: locations.size === 1 ? latest.source.location : null },
    run: { ...latest.run, reduced: latest.run.reduced === null ? null : summarizeReduced(sums) },
    runs,
    counts: {
      inputs: sum(parts, ({ manifest }) => manifest.counts.inputs),
      ok: sum(parts, ({ manifest }) => manifest.counts.ok),
      errors: sum(parts, ({ manifest }) => manifest.counts.errors),
    },
    features: mergeFeatures(parts),
    shards,
  };
}

/** What is told of the latest run is that of the part that was finished last; of one without rows only if all are. */
function summarize(parts: readonly Part[]): {
  readonly latest: Manifest;
  readonly locations: ReadonlySet<string | null>;
} {
  const manifests = parts.map(({ manifest }) => manifest);
  const filled = manifests.filter(({ shards }) => shards.length > 0);
  const latest = (filled.length > 0 ? filled : manifests).reduce((a, b) =>
    b.createdAt > a.createdAt ? b : a,
  );
  return { latest, locations: new Set(manifests.map(({ source }) => source.location)) };
}

function moveShard(shard: ShardRecord, part: string, number: number, firstRow: number): ShardRecord {
  const features = Object.entries(shard.features).map(([key, path]) => [key, `${part}/${path}`] as const);
  return {
    ...shard,
    firstRow: firstRow + shard.firstRow,
    metadata: metadataFile(number),
    features: Object.fromEntries(features),
  };
}

function mergeFeatures(parts: readonly Part[]): Record<string, FeatureRecord> {
  const merged: Record<string, FeatureRecord> = {};
  for (const { manifest } of parts)
    for (const [key, feature] of Object.entries(manifest.features)) {
      const rows = (merged[key]?.rows ?? 0) + feature.rows;
      // Their files have no folder but the parts' in common.
      merged[key] = { ...feature, folder: PARTS, rows };
    }
  return merged;
}

function sum(parts: readonly Part[], of: (part: Part) => number): number {
  return parts.reduce((total, part) => total + of(part), 0);
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
