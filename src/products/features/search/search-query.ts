/** A query of several parts: words, images and vectors that the results resemble, and others that they do not. */
import type { ImageSource } from '../../../photos/images/formats/image-source.js';
import { invalidOption, isPlainObject, type Options } from '../../../base/checks.js';
import { meanDirection } from '../text/class-vectors.js';
import type { QueryModels } from './query-models.js';

/** What a query is made of. */
export interface QueryParts {
  /** Texts, for the text tower that belongs to the dataset's model (CLIP, SigLIP, OpenCLIP). */
  readonly text?: string | readonly string[];
  /** Photos, embedded like the dataset. */
  readonly images?: readonly ImageSource[];
  /** Vectors as long as a row of the feature. */
  readonly vectors?: readonly (Float32Array | readonly number[])[];
}

/** One query of one or more parts: their mean, each scaled to length 1, less the mean of the parts of `not`; scaled to length 1. */
export interface SearchQuery extends QueryParts {
  /** What results should not resemble. */
  readonly not?: QueryParts;
}

/** Computes the vector of a query. Throws `OPTION_INVALID` for a query without a part; those of {@link QueryModels}. */
export async function readSearchQuery(
  query: SearchQuery,
  models: QueryModels,
  signal?: AbortSignal,
): Promise<Float32Array> {
  checkParts('query', query, true);
  const { not = {} } = query;
  checkParts('query.not', not, false);
  const [texts, unlike] = [textsOf(query), textsOf(not)];
  const words = await models.embedTexts([...texts, ...unlike], signal);
  const shown = await models.embedImages([...(query.images ?? []), ...(not.images ?? [])], signal);
  const wanted = query.images?.length ?? 0;
  const vectors = (parts: QueryParts): Float32Array[] =>
    (parts.vectors ?? []).map((vector) => Float32Array.from(vector));
  const like = [...words.slice(0, texts.length), ...shown.slice(0, wanted), ...vectors(query)];
  const away = [...words.slice(texts.length), ...shown.slice(wanted), ...vectors(not)];
  if (like.length === 0) throw invalidOption('query', 'made of at least one text, image or vector', query);
  return combineVectors(like, away, models.elements);
}

/** The mean of the vectors in `like` less the mean of those in `away`, all of so many elements and scaled to length 1 before and after. */
export function combineVectors(
  like: readonly Float32Array[],
  away: readonly Float32Array[],
  elements: number,
): Float32Array {
  const all = [...like, ...away];
  const other = all.find(({ length }) => length !== elements);
  if (other) throw invalidOption('query', `vectors of ${elements} elements`, `one of ${other.length}`);
  const weights = all.map((_, i) => (i < like.length ? 1 / like.length : -1 / away.length));
  return meanDirection(all, weights);
}

function textsOf({ text }: QueryParts): readonly string[] {
  return text === undefined ? [] : typeof text === 'string' ? [text] : text;
}

function checkParts(option: string, parts: Options<SearchQuery>, mayExclude: boolean): void {
  const known = ['text', 'images', 'vectors', ...(mayExclude ? ['not'] : [])];
  const isObject = isPlainObject(parts);
  const unknown = isObject ? Object.keys(parts).find((name) => !known.includes(name)) : undefined;
  if (!isObject || unknown !== undefined)
    throw invalidOption(
      option,
      `an object of ${known.join(', ')} (of a photo: { images: [photo] })`,
      unknown ?? parts,
    );
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
