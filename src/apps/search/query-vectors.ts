/** The vectors of queries: images, embedded like those of the dataset, and inputs of the dataset itself. */
import { invalidOption, type Options } from '../../base/checks.js';
import type { Dataset } from '../../dataset/dataset.js';
import { embedImages } from '../../embed/embed-images.js';
import { openRecordedModel, readRecordedModel, type RecordedModel } from '../../embed/recorded-model.js';
import { datasetInvalid } from '../../dataset/formats/dataset-invalid.js';
import { widen } from '../../tensor/widen.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { POOLS, type RewriteOptions } from '../../model/rewrite-options.js';
import { createTransform } from '../../image/transform.js';
import type { Device } from '../../runtime/device.js';
import { elementCount, type Tensor } from '../../tensor/tensor.js';

/** Options for embedding images. */
export interface QueryOptions {
  /** Output key. */
  readonly key: string;
  /** Path of the model file that made the dataset. */
  readonly model: string;
  readonly device: Device;
  readonly signal: AbortSignal | undefined;
}

/** How a feature of a dataset was made. */
export interface Recipe extends RecordedModel {
  /** The requested name. */
  readonly request: string;
  readonly parts: Options<RewriteOptions>;
}

/**
 * Reads from the manifest how a feature was made.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if the manifest does not say.
 */
export function readRecipe(dataset: Dataset, key: string): Recipe {
  const { request } = dataset.manifest as Partial<Dataset['manifest']>;
  const own = Array.isArray(request) ? request.find((one) => one?.key === key) : undefined;
  if (typeof own?.request !== 'string' || !Array.isArray(own.computed))
    throw datasetInvalid(dataset.folder, `its manifest does not say how "${key}" was made`);
  return { ...readRecordedModel(dataset), request: own.request, parts: partsOf(own.computed) };
}

/**
 * Embeds images as the dataset's manifest records: with the same model (compared by SHA-256), request and transform.
 *
 * @param images - Paths or file contents.
 * @returns One vector per image, in order.
 * @throws {@link TapirError} `CHECKSUM_MISMATCH` for another model; `IMAGE_*` for an image that cannot be read; `OPTION_INVALID` if
 * the model's vectors differ in length from the dataset's; errors of {@link createFeatureExtractor}.
 */
export async function embedQueries(
  dataset: Dataset,
  images: readonly (string | Uint8Array)[],
  { key, model: path, device, signal }: QueryOptions,
): Promise<Float32Array[]> {
  const recipe = readRecipe(dataset, key);
  const model = await openRecordedModel(recipe, path);
  const transform = createTransform(recipe.transform);
  const extractor = await createFeatureExtractor(model, [[recipe.request, key]], {
    device,
    ...recipe.parts,
  });
  try {
    const vectors: Float32Array[] = [];
    for await (const { features, error } of embedImages(extractor, images, { transform, signal })) {
      if (error) throw error;
      vectors.push(toVector(features[key]!, elementCount(dataset.manifest.features[key]!.dims)));
    }
    return vectors;
  } finally {
    await extractor.close();
  }
}

/** The parts that were added after the tensor, from the words of the plan. Half precision does not matter here. */
export function partsOf(computed: readonly string[]): Options<RewriteOptions> {
  const pool = POOLS.find((word) => computed.includes(`pool ${word}`)) ?? 'none';
  return {
    tokensToMap: computed.includes('tokensToMap'),
    pool,
    l2Normalize: computed.includes('l2Normalize'),
  };
}

function toVector({ dtype, data }: Tensor, elements: number): Float32Array {
  // Each row of embedImages has its own buffer.
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
 * Reads the features of inputs by their paths, in the given order.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a path that is not in the dataset, or whose input could not be embedded.
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
