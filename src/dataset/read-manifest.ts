/** Reads `manifest.json`, and trusts nothing in it. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isDType } from '../tensor/tensor.js';
import { DATASET_FORMAT, type Manifest } from './manifest.js';
import { staysInside } from './formats/dataset-file.js';
import { datasetInvalid, datasetUnreadable } from './formats/dataset-invalid.js';

/** Largest manifest that is read: some 800,000 shards. */
const MAX_MANIFEST_BYTES = 256 * 2 ** 20;
/** Largest row of features, in elements: far above any model's, and what a typed array still holds. */
const MAX_ROW_ELEMENTS = 2 ** 28;
const FORMAT_VERSION: Manifest['formatVersion'] = 1;

/**
 * The manifest of a dataset; what reading the files relies on is checked: versions, dims, row counts, paths.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if there is none, or it is no manifest.
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, 'manifest.json');
  let manifest: unknown;
  try {
    const { size } = await stat(path);
    if (size > MAX_MANIFEST_BYTES) throw datasetInvalid(path, `it has ${size} bytes`);
    manifest = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw datasetUnreadable(path, error);
    const reason = 'not a dataset or unfinished; run the same tapir embed again to finish it';
    throw datasetInvalid(folder, `${reason} (there is no manifest.json)`, error);
  }
  const flaw = findFlaw(manifest);
  if (flaw !== undefined) throw datasetInvalid(path, flaw);
  // What is read later was looked at; the rest is the writer's.
  return manifest as Manifest;
}

function findFlaw(manifest: unknown): string | undefined {
  if (!isRecord(manifest) || manifest['format'] !== DATASET_FORMAT) return 'it is no manifest of a dataset';
  const { formatVersion, features, shards } = manifest;
  if (formatVersion !== FORMAT_VERSION)
    return `its formatVersion is ${String(formatVersion)}, this version of onnx-tapir reads ${FORMAT_VERSION}`;
  if (!isRecord(features) || !Array.isArray(shards)) return 'it lists no features or no shards';
  for (const [key, feature] of Object.entries(features))
    if (!isFeature(feature)) return `feature "${key}" has no dtype or dims that can be read`;
  let rows = 0;
  for (const [index, shard] of (shards as unknown[]).entries()) {
    if (!isShard(shard, Object.keys(features))) return `shard ${index} lacks rows, files or features`;
    if (shard.firstRow < rows) return `shard ${index} begins at row ${shard.firstRow}, before ${rows}`;
    rows = shard.firstRow + shard.rows;
    const outside = [shard.metadata, ...Object.values(shard.features)].find((file) => !staysInside(file));
    if (outside !== undefined) return `shard ${index} names "${outside}", a path that leaves the folder`;
  }
  return undefined;
}

function isFeature(feature: unknown): boolean {
  if (!isRecord(feature) || !isDType(feature['dtype']) || feature['dtype'] === 'string') return false;
  const { dims } = feature;
  if (!Array.isArray(dims) || !dims.every(isCount)) return false;
  return dims.reduce((product, size) => product * size, 1) <= MAX_ROW_ELEMENTS;
}

function isShard(shard: unknown, keys: readonly string[]): shard is Manifest['shards'][number] {
  if (!isRecord(shard) || !isCount(shard['rows']) || !isCount(shard['firstRow'])) return false;
  if (typeof shard['metadata'] !== 'string' || !isRecord(shard['features'])) return false;
  const files = shard['features'];
  if (!Object.values(files).every((file) => typeof file === 'string')) return false;
  return shard['rows'] === 0 || keys.every((key) => Object.hasOwn(files, key));
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
