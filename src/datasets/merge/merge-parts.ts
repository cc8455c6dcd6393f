/** Reads and compares the parts of a sharded dataset, and describes them as one dataset. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { TapirError } from '../../base/errors.js';
import {
  compareIdentities,
  compareWeights,
  latestWeights,
  showDifferences,
} from '../records/dataset-identity.js';
import { JOURNAL_FILE, MANIFEST_FILE, metadataPath, PARTS } from '../files/file-names.js';
import { checkUnlocked } from '../../base/folder-lock.js';
import { joinComparisons, latestComparison } from '../records/float32-comparison.js';
import { datasetInvalid, datasetMissing, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { readJournal, type JournalContent } from '../files/journal.js';
import { decoderOf, rowsOf, type FeatureRecord, type Manifest, type ShardRecord } from '../files/manifest.js';
import { listParts, partPath, readPartName } from './parts.js';
import { readManifest } from '../files/read-manifest.js';
import { sumMarked } from '../records/marked-images.js';
import { summarizeReduced } from '../records/reduced-images.js';

/** A finished part. */
export interface Part {
  /** Relative to the dataset: `parts/0-of-3`. */
  readonly name: string;
  readonly folder: string;
  readonly manifest: Manifest;
  readonly journal: JournalContent;
}

const MISSING_NAMED = 10;

/** Reads the parts of a dataset, in order. Throws `DATASET_INVALID`, `DATASET_INCOMPLETE`, `DATASET_MISMATCH`, `OUTPUT_LOCKED`. */
export async function readParts(out: string): Promise<Part[]> {
  const names = await namesOf(out);
  const parts: Part[] = [];
  const unfinished: string[] = [];
  for (const name of names) {
    const folder = join(out, name);
    await checkUnlocked(folder);
    const journal = await readJournal(folder);
    // A run was stopped in an open shard.
    if (!journal || journal.open || !existsSync(join(folder, MANIFEST_FILE))) unfinished.push(name);
    else parts.push({ name, folder, journal, manifest: await readManifest(folder) });
  }
  if (unfinished.length > 0) throw incomplete(out, 'parts are missing or unfinished', unfinished);
  for (const part of parts) checkPart(part, parts[0]!);
  return parts;
}

/** Returns the paths of all parts that must exist. */
async function namesOf(out: string): Promise<string[]> {
  try {
    if ((await readdir(out)).includes(JOURNAL_FILE))
      throw datasetInvalid(out, 'it is a dataset without parts, so there is nothing to merge');
    const found = await listParts(out);
    const names = new Map<number, string>();
    const shards = found.map((name) => {
      const shard = readPartName(name);
      const path = join(out, PARTS, name);
      if (!shard) throw datasetInvalid(path, 'its name is not the name of a part, such as 07-of-12');
      const other = names.get(shard.index);
      if (other !== undefined) throw datasetInvalid(path, `"${other}" is the same part`);
      names.set(shard.index, name);
      return shard;
    });
    const counts = [...new Set(shards.map(({ count }) => count))];
    const [count] = counts;
    if (count === undefined)
      throw datasetInvalid(out, 'it holds no parts (tapir embed --shard i/n writes them)');
    if (counts.length > 1)
      throw datasetInvalid(
        out,
        `it holds parts of ${counts.join(' and of ')}; there must be one number of parts`,
      );
    return Array.from({ length: count }, (_, index) => {
      const name = names.get(index);
      return name === undefined ? partPath({ index, count }) : `${PARTS}/${name}`;
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw datasetMissing(out, error);
    throw datasetUnreadable(out, error);
  }
}

/** Makes the error for parts or inputs that are missing. It names the first ones. */
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
    `"${path}" cannot be merged yet: ${what}: ${missing.join(', ')}${more}; run tapir embed for them with this --out, then merge again`,
    { details: { path, missing, count } },
  );
}

/** Checks that a part agrees with its journal, and was made with the settings of the first part. */
function checkPart({ name, folder, manifest, journal }: Part, first: Part): void {
  const [weights, others] = [latestWeights(journal.runs), latestWeights(first.journal.runs)];
  const differences = [
    ...compareIdentities(journal.identity, first.journal.identity),
    ...(weights && others ? compareWeights(weights, others) : []),
  ];
  if (differences.length > 0) {
    const list = showDifferences(differences, `in "${name}"`, `in "${first.name}"`);
    throw new TapirError(
      'DATASET_MISMATCH',
      `the parts were made with different settings: ${list}. Embed one of them again (option "overwrite")`,
      { details: { path: folder, differences } },
    );
  }
  const isSame = manifest.shards.every(({ metadata }, at) => journal.shards[at]?.metadata === metadata);
  if (!isSame || manifest.shards.length !== journal.shards.length)
    throw datasetInvalid(
      folder,
      'its manifest and its journal name different shards; run the same tapir embed again',
    );
  for (const [key, { dtype, dims }] of Object.entries(manifest.features)) {
    const other = first.manifest.features[key];
    if (other && (other.dtype !== dtype || other.dims.join() !== dims.join()))
      throw datasetInvalid(
        folder,
        `its rows of "${key}" are [${dims.join(', ')}] ${dtype}, in ${first.name} they are [${other.dims.join(', ')}] ${other.dtype}`,
      );
  }
}

/** Checks that no run has changed a part since it was read. Throws `DATASET_INVALID`. */
export async function checkSameJournals(parts: readonly Part[]): Promise<void> {
  for (const { folder, journal } of parts) {
    const now = await readJournal(folder);
    if (now?.bytes !== journal.bytes || !existsSync(join(folder, MANIFEST_FILE)))
      throw datasetInvalid(folder, 'a run has changed it in the meantime; merge again');
  }
}

/** Describes the parts as one dataset. Rows are numbered over all parts, in order. The result depends only on the parts. */
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
  const written = parts.flatMap(({ journal }) => journal.shards);
  const comparisons = parts.flatMap(({ journal }) => latestComparison(journal.shards) ?? []);
  const sums = written.map(({ reduced }) => reduced);
  return {
    ...latest,
    source: { ...latest.source, location: locations.size === 1 ? latest.source.location : null },
    versions: { ...latest.versions, ...decoderOf(written) },
    run: latest.run && {
      ...latest.run,
      againstFloat32: joinComparisons(comparisons) ?? null,
      reduced: latest.run.reduced === null ? null : summarizeReduced(sums),
      marked: sumMarked(written.map(({ marked }) => marked)),
    },
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

/** The settings of the merged manifest are those of the part that was finished last, among the parts with rows if there are any. */
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
    metadata: metadataPath(number),
    features: Object.fromEntries(features),
  };
}

function mergeFeatures(parts: readonly Part[]): Record<string, FeatureRecord> {
  const merged: Record<string, FeatureRecord> = {};
  for (const { manifest } of parts)
    for (const [key, feature] of Object.entries(manifest.features)) {
      const rows = (merged[key]?.rows ?? 0) + feature.rows;
      // The only folder that all their files are in.
      merged[key] = { ...feature, folder: PARTS, rows };
    }
  return merged;
}

function sum(parts: readonly Part[], of: (part: Part) => number): number {
  return parts.reduce((total, part) => total + of(part), 0);
}
