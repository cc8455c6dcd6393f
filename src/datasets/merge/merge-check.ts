/** Checks that the parts of a dataset hold every input exactly once, in bounded memory. */
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { readMetadataGroups } from '../formats/metadata-columns.js';
import { partsOf } from '../records/dataset-identity.js';
import { identityOf, identityOfItem, nameItems } from '../records/input-names.js';
import { KnownInputs } from '../records/known-inputs.js';
import { RowNames } from '../records/row-names.js';
import { locateFile } from '../records/locate-file.js';
import type { ShardRecord } from '../files/manifest.js';
import { incomplete, type Part } from './merge-parts.js';

/** The number of missing inputs that the error names. */
const MISSING_KEPT = 10;

/**
 * Reads the inputs of all parts. Checks that all files exist and agree with the manifests.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if an input occurs twice, or if a file is missing or damaged.
 */
export async function checkInputs(
  out: string,
  parts: readonly Part[],
  signal: AbortSignal | undefined,
): Promise<KnownInputs> {
  const known = new KnownInputs(parts.reduce((sum, { manifest }) => sum + manifest.counts.inputs, 0));
  for (const [number, { folder, manifest, journal }] of parts.entries()) {
    // Then an input has several rows.
    const hasParts = partsOf(journal.identity) !== undefined;
    for (const shard of manifest.shards) {
      signal?.throwIfAborted();
      for (const path of Object.values(shard.features)) await locateFile(folder, path);
      const path = await locateFile(folder, shard.metadata);
      let inputs = 0;
      for await (const group of readMetadataGroups(path, { own: ['path'] }))
        for (const [i, row] of group.rows.entries()) {
          // If it is in the source again, it must be embedded again.
          if (group.statuses[i] === 'removed') continue;
          checkRow(path, row, shard);
          const name = identityOf({ path: group.textAt('path', i), clipStart: group.partAt(i).clipStart });
          const other = known.find(name);
          if (hasParts && other?.shard === number) continue;
          inputs++;
          if (other) {
            const where = [...new Set([other.shard, number])].map((part) => parts[part]!.name).join(' and ');
            throw datasetInvalid(out, `it holds the input "${name}" more than once: in ${where}`);
          }
          known.set(name, 'ok', null, number);
        }
      if (inputs !== shard.inputs)
        throw datasetInvalid(path, `it holds ${inputs} inputs, the manifest says ${shard.inputs}`);
    }
  }
  return known;
}

function checkRow(path: string, row: number, { firstRow, rows }: ShardRecord): void {
  if (row >= 0 && !(row >= firstRow && row < firstRow + rows))
    throw datasetInvalid(path, `row ${row} is not one of the ${rows} rows from ${firstRow}`);
}

/** Checks that each input of a source is known. Throws `DATASET_INCOMPLETE` with the first inputs that are missing. */
export async function checkSource(
  out: string,
  source: AsyncIterable<SourceItem>,
  known: KnownInputs,
  signal: AbortSignal | undefined,
): Promise<void> {
  const missing: string[] = [];
  let count = 0;
  const names = new RowNames(known);
  for await (const given of nameItems(source)) {
    signal?.throwIfAborted();
    const item = names.nameOwn(given);
    const name = identityOfItem(item);
    if (known.find(name)) {
      known.markSeen(name);
      continue;
    }
    count++;
    if (missing.length < MISSING_KEPT) missing.push(item.path);
  }
  if (count > 0) throw incomplete(out, 'inputs of the source are in no part', missing, count);
}
