/** Reads `manifest.json` without trusting its content. */
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isPlainObject } from '../../base/checks.js';
import { count, fields, firstMisshapen, recordOf, text } from '../../base/shapes.js';
import { JOURNAL_FILE, MANIFEST_FILE, PARTS } from './file-names.js';
import { datasetInvalid, datasetMissing, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { staysInside } from '../records/locate-file.js';
import { DATASET_FORMAT, type Manifest } from './manifest.js';
import { isFeature, MANIFEST_SHAPE } from './record-shapes.js';

/** The largest manifest that is read: about 800,000 shards. */
const MAX_MANIFEST_BYTES = 256 * 2 ** 20;
const FORMAT_VERSION: Manifest['formatVersion'] = 1;

/**
 * Reads the manifest of a dataset. It checks what readers rely on: versions, dims, row counts, paths.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if there is no manifest, or if it is damaged.
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, MANIFEST_FILE);
  let manifest: unknown;
  try {
    const { size } = await stat(path);
    if (size > MAX_MANIFEST_BYTES) throw datasetInvalid(path, `it has ${size} bytes`);
    manifest = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw datasetUnreadable(path, error);
    if (!existsSync(folder)) throw datasetMissing(folder, error);
    throw datasetInvalid(folder, `${whyNone(folder)} (there is no ${MANIFEST_FILE})`, error);
  }
  const flaw = findFlaw(manifest);
  if (flaw !== undefined) throw datasetInvalid(path, flaw);
  // findFlaw has checked all that readers rely on.
  return manifest as Manifest;
}

/** Why a folder has no manifest. */
function whyNone(folder: string): string {
  if (existsSync(join(folder, PARTS))) return `its parts are not merged; join them: tapir merge ${folder}`;
  if (existsSync(join(folder, JOURNAL_FILE)))
    return 'it is unfinished; to finish it, run the same tapir embed again';
  return 'it is not a dataset';
}

function findFlaw(manifest: unknown): string | undefined {
  if (!isPlainObject(manifest) || manifest['format'] !== DATASET_FORMAT)
    return 'it is no manifest of a dataset';
  const { formatVersion, features, shards } = manifest;
  if (formatVersion !== FORMAT_VERSION)
    return `its formatVersion is ${String(formatVersion)}, this version of onnx-tapir reads ${FORMAT_VERSION}`;
  if (!isPlainObject(features) || !Array.isArray(shards)) return 'it lists no features or no shards';
  const misshapen = firstMisshapen(manifest, MANIFEST_SHAPE);
  if (misshapen !== undefined) return `its "${misshapen}" is missing or damaged`;
  for (const [key, feature] of Object.entries(features)) {
    if (!isFeature(feature)) return `feature "${key}" has no valid dtype or dims`;
    if (isPlainObject(feature) && feature['format'] === 'jsonl')
      return `feature "${key}" is stored as JSON lines, which this version does not read; embed again with --format npy, arrow or parquet`;
  }
  let rows = 0;
  let inputs = 0;
  for (const [index, shard] of (shards as unknown[]).entries()) {
    if (!isShard(shard, Object.keys(features))) return `shard ${index} lacks rows, files or features`;
    if (shard.firstRow !== rows) return `shard ${index} begins at row ${shard.firstRow}, not ${rows}`;
    rows += shard.rows;
    inputs += shard.inputs;
    const outside = [shard.metadata, ...Object.values(shard.features)].find((file) => !staysInside(file));
    if (outside !== undefined) return `shard ${index} names "${outside}", a path that leaves the folder`;
  }
  // MANIFEST_SHAPE has them.
  const counts = manifest['counts'] as Manifest['counts'];
  if (inputs !== counts.inputs || inputs !== counts.ok + counts.errors)
    return `its shards hold ${inputs} inputs, its counts say ${counts.inputs} (${counts.ok} ok, ${counts.errors} errors)`;
  for (const [key, feature] of Object.entries(features as Manifest['features']))
    if (feature.rows !== rows) return `its shards hold ${rows} rows, feature "${key}" says ${feature.rows}`;
  return undefined;
}

function isShard(shard: unknown, keys: readonly string[]): shard is Manifest['shards'][number] {
  if (!isPlainObject(shard) || !SHARD(shard)) return false;
  return shard['rows'] === 0 || keys.every((key) => Object.hasOwn(shard['features'] as object, key));
}

const SHARD = fields({
  inputs: count,
  rows: count,
  deadRows: count,
  firstRow: count,
  metadata: text,
  features: recordOf(text),
});
