/** Queries: images, embedded as the dataset was, and inputs of the dataset itself. */
import { invalidOption, type Given } from '../checks.js';
import { TapirError } from '../errors.js';
import type { Dataset } from '../embed/dataset.js';
import { embedImages } from '../embed/embedder.js';
import { widen } from '../embed/readers/widen.js';
import { createFeatureExtractor } from '../extract/create-feature-extractor.js';
import { openModel } from '../extract/open-model.js';
import { identifyFile } from '../extract/prune-model.js';
import { POOLS, type RewriteOptions } from '../extract/rewrite-options.js';
import { createTransform } from '../image/transform.js';
import type { Device } from '../runtime/device.js';
import { elementCount, type Tensor } from '../runtime/tensor.js';

/** How images are embedded. */
export interface QueryOptions {
  /** Output key. */
  readonly key: string;
  /** Path of the model file that the dataset was made with. */
  readonly model: string;
  readonly device: Device;
  readonly signal: AbortSignal | undefined;
}

/**
 * Embeds images as the dataset's manifest says: with its model (compared by SHA-256), request and transform.
 *
 * @param images - Paths or file contents.
 * @returns A vector for each image, in order.
 * @throws {@link TapirError} `CHECKSUM_MISMATCH` for another model; `IMAGE_*` for an image that cannot be read; `OPTION_INVALID` if
 * the model gives another number of elements than the dataset holds; those of {@link createFeatureExtractor}.
 */
export async function embedQueries(
  { manifest }: Dataset,
  images: readonly (string | Uint8Array)[],
  { key, model: path, device, signal }: QueryOptions,
): Promise<Float32Array[]> {
  const model = await openModel(path);
  const { sha256 } = await identifyFile(model);
  const { file, sha256: expected } = manifest.model;
  if (sha256 !== expected) {
    const message = `"${path}" is not the model of the dataset (${file}): its SHA-256 is ${sha256}, not ${expected}`;
    throw new TapirError('CHECKSUM_MISMATCH', message, { details: { path, expected, actual: sha256 } });
  }
  const request = manifest.request.find((one) => one.key === key);
  if (!request) throw invalidOption('key', 'an output that the manifest has the request of', key);
  const { preset: _preset, ...transform } = manifest.transform;
  const extractor = await createFeatureExtractor(model, [[request.request, key]], {
    device,
    ...partsOf(request.computed),
  });
  try {
    const vectors: Float32Array[] = [];
    const options = { transform: createTransform(transform), keepDims: manifest.run.keepDims, signal };
    for await (const { features, error } of embedImages(extractor, images, options)) {
      if (error) throw error;
      vectors.push(toVector(features[key]!, elementCount(manifest.features[key]!.dims)));
    }
    return vectors;
  } finally {
    await extractor.close();
  }
}

/** What was computed behind the tensor, from the words of the plan; half precision changes nothing that matters here. */
function partsOf(computed: readonly string[]): Given<RewriteOptions> {
  const pool = POOLS.find((word) => computed.includes(`pool ${word}`)) ?? 'none';
  return {
    tokensToMap: computed.includes('tokensToMap'),
    pool,
    l2Normalize: computed.includes('l2Normalize'),
  };
}

function toVector({ dtype, data }: Tensor, elements: number): Float32Array {
  // A row of embedImages has a buffer of its own.
  const vector = Array.isArray(data) ? new Float32Array(0) : widen(dtype, data.buffer as ArrayBuffer);
  if (vector.length === elements) return vector;
  throw invalidOption(
    'model',
    `one that gives ${elements} elements per image, as the dataset holds`,
    vector.length,
  );
}

/** An input of the dataset as a query. */
export interface RowQuery {
  readonly row: number;
  readonly vector: Float32Array;
}

/**
 * The features of inputs by their paths, in the order given.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a path that the dataset does not hold, or that could not be embedded.
 */
export async function readRowQueries(
  dataset: Dataset,
  key: string,
  paths: readonly string[],
): Promise<RowQuery[]> {
  if (paths.length === 0) return [];
  const rows = new Map<string, number | null>();
  const wanted = new Set(paths);
  for await (const { path, row } of dataset.rows())
    if (path !== null && wanted.has(path)) rows.set(path, row);
  const vectors = await readRows(dataset, key, new Set(rows.values()));
  return paths.map((path) => {
    const row = rows.get(path) ?? null;
    const vector = row === null ? undefined : vectors.get(row);
    if (row !== null && vector) return { row, vector };
    const expected = rows.has(path) ? 'an input that could be embedded' : 'an input of the dataset';
    throw invalidOption('path', expected, path);
  });
}

async function readRows(
  dataset: Dataset,
  key: string,
  wanted: ReadonlySet<number | null>,
): Promise<ReadonlyMap<number, Float32Array>> {
  const vectors = new Map<number, Float32Array>();
  for await (const { firstRow, rows, data } of dataset.blocks(key)) {
    const elements = data.length / rows;
    for (const row of wanted) {
      if (row === null || row < firstRow || row >= firstRow + rows) continue;
      const at = (row - firstRow) * elements;
      vectors.set(row, data.slice(at, at + elements));
    }
    if (vectors.size === wanted.size) break;
  }
  return vectors;
}
