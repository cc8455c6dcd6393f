/** A query of several parts: words, images and vectors that the results resemble, and others that they do not. */
import { invalidOption, type Options } from '../../base/checks.js';
import type { Dataset } from '../../dataset/dataset.js';
import type { Device } from '../../runtime/device.js';
import { elementCount } from '../../tensor/tensor.js';
import { meanDirection } from '../../text/class-vectors.js';
import { createTextEncoder } from '../../text/text-encoder.js';
import { openRecordedModel, readRecordedModel } from '../../embed/recorded-model.js';
import { embedQueries } from './query-vectors.js';

/** What a query is made of. */
export interface QueryParts {
  /** Texts, for the text tower that belongs to the dataset's model (CLIP, SigLIP, OpenCLIP). */
  readonly text?: string | readonly string[];
  /** Paths or file contents of images, embedded like the dataset. */
  readonly images?: readonly (string | Uint8Array)[];
  /** Vectors as long as a row of the feature. */
  readonly vectors?: readonly (Float32Array | readonly number[])[];
}

/** One query of one or more parts: their mean, each scaled to length 1, less the mean of the parts of `not`; scaled to length 1. */
export interface SearchQuery extends QueryParts {
  /** What results should not resemble. */
  readonly not?: QueryParts;
}

/** What embeds the parts of queries. */
export interface QueryModels {
  readonly key: string;
  readonly model: string | undefined;
  readonly textModel: string | undefined;
  readonly device: Device;
  readonly signal: AbortSignal | undefined;
}

/**
 * Computes the vector of a query.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a query without a part, and without the model that a part needs; those of
 * {@link embedQueries} and {@link createTextEncoder}.
 */
export async function readSearchQuery(
  dataset: Dataset,
  query: SearchQuery,
  models: QueryModels,
): Promise<Float32Array> {
  checkParts('query', query, true);
  const { not = {} } = query;
  checkParts('query.not', not, false);
  const [texts, unlike] = [textsOf(query), textsOf(not)];
  const words = await embedTexts(dataset, [...texts, ...unlike], models);
  const shown = await embedShown(dataset, [...(query.images ?? []), ...(not.images ?? [])], models);
  const wanted = query.images?.length ?? 0;
  const vectors = (parts: QueryParts): Float32Array[] =>
    (parts.vectors ?? []).map((vector) => Float32Array.from(vector));
  const like = [...words.slice(0, texts.length), ...shown.slice(0, wanted), ...vectors(query)];
  const away = [...words.slice(texts.length), ...shown.slice(wanted), ...vectors(not)];
  if (like.length === 0) throw invalidOption('query', 'made of at least one text, image or vector', query);
  return combineVectors(like, away, elementsOf(dataset, models.key));
}

/**
 * The mean of the vectors in `like` less the mean of those in `away`, all scaled to length 1 before and after.
 *
 * @param elements - Length that all must have.
 */
export function combineVectors(
  like: readonly Float32Array[],
  away: readonly Float32Array[],
  elements: number,
): Float32Array {
  const all = [...like, ...away];
  const other = all.find(({ length }) => length !== elements);
  if (other) throw invalidOption('query', `vectors of ${elements} elements`, `one of ${other.length}`);
  return meanDirection(
    all,
    all.map((_, i) => (i < like.length ? 1 / like.length : -1 / away.length)),
  );
}

/**
 * Embeds texts for a dataset. The text tower is `textModel`, or the one beside `model`, which must be the model of the dataset.
 *
 * @throws {@link TapirError} `OPTION_INVALID` without a model, and if the vectors of texts and images differ in length.
 */
export async function embedTexts(
  dataset: Dataset,
  texts: readonly string[],
  { key, model, textModel, device, signal }: QueryModels,
): Promise<Float32Array[]> {
  if (texts.length === 0) return [];
  const path = textModel ?? model;
  if (path === undefined)
    throw invalidOption(
      'textModel',
      'given for texts, or the image model beside its text tower as "model"',
      path,
    );
  // The tower beside another image model would give vectors of another space.
  if (textModel === undefined) await openRecordedModel(readRecordedModel(dataset), path);
  await using tower = await createTextEncoder(path, { device });
  const vectors = await tower.encode(texts, { signal });
  const elements = elementsOf(dataset, key);
  if (vectors.every(({ length }) => length === elements)) return vectors;
  const outputs = tower.model.outputs.map(({ name }) => name).join(', ');
  throw invalidOption(
    'textModel',
    `a text tower whose vectors have ${elements} elements, as "${key}" of the dataset has`,
    `${vectors[0]!.length} from output "${tower.output}" (it has ${outputs})`,
  );
}

async function embedShown(
  dataset: Dataset,
  images: readonly (string | Uint8Array)[],
  { key, model, device, signal }: QueryModels,
): Promise<Float32Array[]> {
  if (images.length === 0) return [];
  if (model === undefined)
    throw invalidOption('model', 'given for images: the file that the dataset was made with', model);
  return embedQueries(dataset, images, { key, model, device, signal });
}

function textsOf({ text }: QueryParts): readonly string[] {
  return text === undefined ? [] : typeof text === 'string' ? [text] : text;
}

function elementsOf({ manifest }: Dataset, key: string): number {
  return elementCount(manifest.features[key]!.dims);
}

function checkParts(option: string, parts: Options<SearchQuery>, mayExclude: boolean): void {
  const known = ['text', 'images', 'vectors', ...(mayExclude ? ['not'] : [])];
  const isObject = parts !== null && typeof parts === 'object' && !Array.isArray(parts);
  const unknown = isObject ? Object.keys(parts).find((name) => !known.includes(name)) : undefined;
  if (!isObject || unknown !== undefined)
    throw invalidOption(option, `an object of ${known.join(', ')}`, unknown ?? parts);
  const { text, images, vectors } = parts;
  const isText = (given: unknown): boolean => typeof given === 'string';
  if (text !== undefined && !isText(text) && !(Array.isArray(text) && text.every(isText)))
    throw invalidOption(`${option}.text`, 'a string or a list of strings', text);
  for (const [name, list] of Object.entries({ images, vectors }))
    if (list !== undefined && !Array.isArray(list)) throw invalidOption(`${option}.${name}`, 'a list', list);
  const broken = vectors?.find(
    (vector: unknown) =>
      !(vector instanceof Float32Array || Array.isArray(vector)) ||
      !Array.from(vector).every(Number.isFinite),
  );
  if (broken !== undefined) throw invalidOption(`${option}.vectors`, 'lists of finite numbers', broken);
}
