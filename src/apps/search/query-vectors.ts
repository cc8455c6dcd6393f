/** Queries: images, embedded as the dataset was, and inputs of the dataset itself. */
import { invalidOption, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import type { Dataset } from '../../dataset/dataset.js';
import { embedImages } from '../../embed/embed-images.js';
import { datasetInvalid } from '../../dataset/formats/dataset-invalid.js';
import { widen } from '../../dataset/formats/widen.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { openModel } from '../../model/open-model.js';
import { identifyFile } from '../../model/identify-model.js';
import { POOLS, type RewriteOptions } from '../../model/rewrite-options.js';
import type { TransformOptions } from '../../image/transform-options.js';
import { createTransform } from '../../image/transform.js';
import type { Device } from '../../runtime/device.js';
import { elementCount, type Tensor } from '../../tensor/tensor.js';

/** How images are embedded. */
export interface QueryOptions {
  /** Output key. */
  readonly key: string;
  /** Path of the model file that the dataset was made with. */
  readonly model: string;
  readonly device: Device;
  readonly signal: AbortSignal | undefined;
}

/** How a feature of a dataset was made. */
export interface Recipe {
  /** Name of the model file. */
  readonly file: string;
  readonly sha256: string;
  /** The name that was asked for. */
  readonly request: string;
  readonly parts: Options<RewriteOptions>;
  readonly transform: Options<TransformOptions>;
}

/**
 * Reads from the manifest how a feature was made.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if it does not say.
 */
export function readRecipe({ folder, manifest }: Dataset, key: string): Recipe {
  // Only what reading the features needs was checked when the dataset was opened.
  const { model, request, transform } = manifest as Partial<Dataset['manifest']>;
  const own = Array.isArray(request) ? request.find((one) => one?.key === key) : undefined;
  if (
    typeof model?.file !== 'string' ||
    typeof model.sha256 !== 'string' ||
    typeof own?.request !== 'string' ||
    !Array.isArray(own.computed) ||
    transform === null ||
    typeof transform !== 'object'
  )
    throw datasetInvalid(folder, `its manifest does not say how "${key}" was made`);
  const { preset: _preset, ...options } = transform;
  const { file, sha256 } = model;
  return { file, sha256, request: own.request, parts: partsOf(own.computed), transform: options };
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
  dataset: Dataset,
  images: readonly (string | Uint8Array)[],
  { key, model: path, device, signal }: QueryOptions,
): Promise<Float32Array[]> {
  const recipe = readRecipe(dataset, key);
  const model = await openModel(path);
  const { sha256 } = await identifyFile(model);
  if (sha256 !== recipe.sha256) {
    const message = `"${path}" is not the model of the dataset (${recipe.file}): its SHA-256 is ${sha256}, not ${recipe.sha256}`;
    throw new TapirError('CHECKSUM_MISMATCH', message, {
      details: { path, expected: recipe.sha256, actual: sha256 },
    });
  }
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

/** What was computed behind the tensor, from the words of the plan; half precision changes nothing that matters here. */
function partsOf(computed: readonly string[]): Options<RewriteOptions> {
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
