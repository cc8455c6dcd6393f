/** Exact nearest neighbours in a dataset. Its features are read where they lie, so that memory does not grow with the dataset. */
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { Internals } from '../../../run/model/open/internals.js';
import { readPlaces } from '../../../datasets/labels/live-rows.js';
import { readRowsWhere, WHERE } from '../../../datasets/labels/where.js';
import {
  callback,
  integer,
  oneOf,
  optional,
  readOptions,
  signal,
  unchecked,
  type Field,
  type Fields,
} from '../../../base/options.js';
import { checkText, invalidOption, type Options } from '../../../base/checks.js';
import type { RowSet } from '../../../base/row-set.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { Largest } from '../../../onnx/tensor/vectors/largest.js';
import { unitVector } from '../../../onnx/tensor/vectors/unit-vector.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Progress } from '../../../base/progress.js';
import type { Tile } from '../../../photos/images/pixels/tile-grid.js';
import {
  createQuery,
  exactValue,
  lowerBound,
  METRICS,
  scoreOf,
  slackOf,
  upperBound,
  type Metric,
  type Query,
} from './metric.js';
import { QueryModels } from './query-models.js';
import { readSearchQuery, type SearchQuery } from './search-query.js';
import { StoredScores, type GroupScores } from './stored-scores.js';

/** Options of {@link searchDataset}. */
export interface SearchOptions {
  /**
   * Output key of the features to search. You may leave it out if the dataset has one output.
   * @default undefined
   */
  readonly key: string | undefined;
  /**
   * Maximum number of neighbours per query, an integer from 1 to 10000.
   * @default 10
   */
  readonly top: number;
  /**
   * `cosine` (of the angle; 0 for a vector of zeros), `dot` (the product) or `l2` (the Euclidean distance, nearest first).
   * @default 'cosine'
   */
  readonly metric: Metric;
  /**
   * Device that computes the scores. Only `'auto'` falls back to the CPU.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * For each query a row to leave out of its results (the query's own), a list of rows, or null. Empty to leave out none.
   * @default []
   */
  readonly exclude: readonly (number | readonly number[] | null)[];
  /**
   * Only images of this label: a source as {@link trainProbe} takes its labels, `=`, and the label. `column:keep=yes`, `by-folder=sea`.
   * @default undefined, which is all images
   */
  readonly where: string | undefined;
  /**
   * Path of the model file that made the dataset, for queries with images; for texts, too, if its text tower lies beside it.
   * @default undefined
   */
  readonly model: string | undefined;
  /**
   * Path of the text tower, for queries with texts, if it does not lie beside `model`; see {@link createTextEncoder}.
   * @default undefined
   */
  readonly textModel: string | undefined;
  /**
   * Stops the search when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called with how much is done, and of what.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

/** The feature that is meant, which {@link chooseKey} checks. */
export const KEY: Field<string | undefined> = unchecked<string | undefined>(
  undefined,
  'output key of the features; required if the dataset has several',
);

export const SEARCH_FIELDS: Fields<SearchOptions> = {
  key: KEY,
  top: integer(1, 10_000, 10, 'number of neighbours per image'),
  metric: oneOf(METRICS, 'cosine', 'cosine, the product, or the Euclidean distance'),
  device: DEVICE,
  // Checked with the queries.
  exclude: unchecked<SearchOptions['exclude']>([]),
  where: WHERE,
  model: optional(checkText),
  textModel: optional(checkText),
  signal,
  onProgress: callback(),
};

/** A neighbour. */
export interface SearchHit {
  /** Position in the results, from 1. */
  readonly rank: number;
  /** Cosine, product or distance, in double precision. */
  readonly score: number;
  /** Path of the input as the dataset records it; null for an input given as bytes. */
  readonly path: string | null;
  /** Row in the features, counted over all shards. */
  readonly row: number;
  /** In a dataset of crops: the number of the crop. */
  readonly crop?: number;
  /** In a dataset of tiles: what the tile covers of its picture. */
  readonly tile?: Tile;
  /** In a dataset of clips: the first frame of the clip. */
  readonly clipStart?: number;
}

export const MOST_QUERIES = 1024;

/**
 * Finds the exact nearest neighbours of vectors in a dataset. ONNX Runtime scores all rows in float32; every row that may be among
 * the nearest within rounding errors is then compared in double precision.
 *
 * @remarks Equally near rows are ordered by row number. Outdated rows, rows that `where` leaves out, and rows with a NaN or an
 * infinity, are never results. ONNX Runtime maps the files of the features, a GiB at a time, into memory that the system takes back when
 * it needs it. Beside them, memory holds 64 MiB of scores, and a bit for each row.
 *
 * @param dataset - From {@link openDataset}.
 * @param query - Up to 1024 vectors, one per query. Each has as many finite numbers as a row of the feature has elements. Or one
 * query of texts, images and vectors: see {@link SearchQuery}.
 * @param given - See {@link SearchOptions}.
 * @returns For each query its neighbours, nearest first; fewer than `top` if the dataset has fewer rows.
 * @throws {@link TapirError} `OPTION_INVALID`; `DATASET_INVALID`; `DEVICE_UNAVAILABLE`; with images or texts also
 * `CHECKSUM_MISMATCH` for another model, and those of {@link createTextEncoder}.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { searchDataset } from 'onnx-tapir/features';
 *
 * const dataset = await openDataset('vectors');
 * const [hits] = await searchDataset(dataset, [new Float32Array(2048).fill(1)], { top: 3 });
 * console.log(hits); // [{ rank: 1, score: 0.83, path: 'sea/sea-0.jpg', row: 12 }, …]
 *
 * const words = { text: 'a dog on grass', not: { text: 'a drawing' } };
 * const [dogs] = await searchDataset(dataset, words, { model: 'clip/onnx/vision_model.onnx' });
 * console.log(dogs?.[0]?.path);
 * ```
 */
export async function searchDataset(
  dataset: Dataset,
  query: readonly (Float32Array | readonly number[])[] | SearchQuery,
  given: Options<SearchOptions> = {},
): Promise<SearchHit[][]> {
  checkDataset(dataset);
  const options = readOptions(SEARCH_FIELDS, given, 'searchDataset');
  const key = chooseKey(dataset, options.key);
  const vectors = isList(query) ? query : [await embedQuery(dataset, query, { ...options, key })];
  await using stored = await StoredScores.open(dataset, key, options.device, false);
  return await searchVectors(dataset, stored, key, vectors, options);
}

/** The vector of a query. Its models are closed before the dataset is read. */
async function embedQuery(
  dataset: Dataset,
  query: SearchQuery,
  { key, model, textModel, device, signal }: SearchOptions & { readonly key: string },
): Promise<Float32Array> {
  await using models = new QueryModels(dataset, { key, model, textModel, device });
  return await readSearchQuery(query, models, signal);
}

/** {@link searchDataset} of a feature, with checked options. `known` are the rows that belong to an input, if they were read before. */
export async function searchVectors(
  dataset: Dataset,
  stored: StoredScores,
  key: string,
  vectors: readonly (Float32Array | readonly number[])[],
  {
    top,
    metric,
    signal,
    onProgress,
    ...options
  }: Omit<SearchOptions, 'key' | 'model' | 'textModel' | 'device'>,
  known?: RowSet,
): Promise<SearchHit[][]> {
  const elements = elementCount(dataset.manifest.features[key]!.dims);
  const queries = readQueries(vectors, elements);
  if (queries.length === 0) return [];
  const exclude = readExclude(options.exclude, queries.length);
  const live = known ?? (await readRowsWhere(dataset, options.where));
  const units = new Float32Array(queries.length * elements);
  for (const [q, { vector }] of queries.entries()) units.set(unitVector(vector), q * elements);
  const best = queries.map(() => new Largest(top));
  const atLeast = queries.map(() => new Largest(top));
  const search: Search = { metric, queries, best, atLeast, live, exclude };
  const total = dataset.manifest.features[key]!.rows;
  for await (const scores of stored.score(units, signal)) {
    signal?.throwIfAborted();
    await merge(search, scores);
    if (scores.from + scores.count < queries.length) continue;
    onProgress?.({ done: scores.firstRow + scores.rows, total, unit: 'rows', what: 'comparing rows' });
  }
  return await describeHits(dataset, metric, best);
}

const datasets = new Internals<Dataset, never>('dataset', 'a dataset, as openDataset gives it');

/** Refuses what is not a dataset, such as a promise of one. Datasets of another copy of this package are fine. */
export function checkDataset(dataset: Partial<Dataset> | null | undefined): void {
  const isDataset = typeof dataset?.rows === 'function' && typeof dataset.blocks === 'function';
  if (!isDataset || !dataset.manifest?.features) throw datasets.refuse(dataset);
}

/** Chooses the feature to search. Throws `OPTION_INVALID` for an unknown key, and for no key if the dataset has several. */
export function chooseKey({ manifest }: Dataset, given: string | undefined): string {
  const keys = Object.keys(manifest.features);
  if (given === undefined && keys.length === 1) return keys[0]!;
  if (given !== undefined && keys.includes(given)) return given;
  const list = keys.map((key) => JSON.stringify(key)).join(', ');
  const which =
    given === undefined && keys.length > 1
      ? 'one of the features of the dataset'
      : 'a feature of the dataset';
  throw invalidOption('key', `${which} (${list || 'it has none'})`, given);
}

/** Array.isArray, which does not narrow a readonly array. */
export function isList<Item>(given: readonly Item[] | object): given is readonly Item[] {
  return Array.isArray(given);
}

function readQueries(vectors: readonly (Float32Array | readonly number[])[], elements: number): Query[] {
  if (!Array.isArray(vectors) || vectors.length > MOST_QUERIES)
    throw invalidOption('vectors', `a list of at most ${MOST_QUERIES} vectors`, vectors);
  return Array.from(vectors, (given: unknown, i) => {
    const isVector = given instanceof Float32Array || Array.isArray(given);
    const vector = isVector ? Float32Array.from(given as ArrayLike<number>) : new Float32Array(0);
    if (isVector && vector.length === elements && vector.every(Number.isFinite)) return createQuery(vector);
    const isLong = vector.length === elements;
    const actual = isLong
      ? `${vector.find((value) => !Number.isFinite(value))} among them`
      : `${vector.length} numbers`;
    throw invalidOption(`vectors[${i}]`, `${elements} finite numbers`, isVector ? actual : given);
  });
}

function readExclude(given: SearchOptions['exclude'], queries: number): readonly ReadonlySet<number>[] {
  const rows = isList(given) ? given.map((one) => (typeof one === 'number' ? [one] : (one ?? []))) : null;
  const isRight =
    rows && (rows.length === 0 || rows.length === queries) && rows.flat().every(Number.isSafeInteger);
  if (isRight) return rows.map((own) => new Set(own));
  throw invalidOption('exclude', 'a row, a list of rows, or null for each query', given);
}

/** The state of a search. */
interface Search {
  readonly metric: Metric;
  readonly queries: readonly Query[];
  readonly best: readonly Largest[];
  /** The largest lower bounds of each query. */
  readonly atLeast: readonly Largest[];
  readonly live: RowSet;
  readonly exclude: readonly ReadonlySet<number>[];
}

/** Compares the rows exactly that may be among the best. */
async function merge(search: Search, scores: GroupScores): Promise<void> {
  const { metric, queries, best } = search;
  const wanted = queries
    .slice(scores.from, scores.from + scores.count)
    .map((query, i) => findCandidates(search, scores, query, i));
  const rows = wanted.length === 1 ? wanted[0]! : [...new Set(wanted.flat())].toSorted((a, b) => a - b);
  const next = wanted.map(() => 0);
  for await (const { rows: read, data } of scores.readRows(rows))
    for (const [i, own] of wanted.entries()) {
      const query = queries[scores.from + i]!;
      const { length } = query.vector;
      for (let place = 0; place < read.length && next[i]! < own.length; place++) {
        if (read[place] !== own[next[i]!]) continue;
        const value = exactValue(metric, query, data, place * length);
        if (Number.isFinite(value)) best[scores.from + i]!.add(read[place]!, value);
        next[i]!++;
      }
    }
}

/** The rows of a group that may be among the best of a query, in order: no bound shows that others are nearer. */
function findCandidates(
  { metric, best, atLeast, live, exclude }: Search,
  { firstRow, rows, from, count, dots, squares, isOnCpu }: GroupScores,
  query: Query,
  i: number,
): number[] {
  const slack = slackOf(query.vector.length, isOnCpu);
  // Rows come in order, so a later row that is equally near is not better.
  const beaten = best[from + i]!.least;
  const bounds = atLeast[from + i]!;
  const own = exclude[from + i];
  const found: number[] = [];
  const most: number[] = [];
  for (let place = 0; place < rows; place++) {
    const dot = dots[place * count + i]!;
    const square = squares[place]!;
    const bound = upperBound(metric, query, dot, square, slack);
    if (bound <= beaten || bound < bounds.least) continue;
    const row = firstRow + place;
    if (own?.has(row) || !live.has(row)) continue;
    found.push(row);
    most.push(bound);
    bounds.add(row, lowerBound(metric, query, dot, square, slack));
  }
  return found.filter((_, at) => most[at]! >= bounds.least);
}

async function describeHits(
  dataset: Dataset,
  metric: Metric,
  best: readonly Largest[],
): Promise<SearchHit[][]> {
  const places = await readPlaces(dataset, new Set(best.flatMap(({ indices }) => indices)));
  return best.map(({ indices, values }) =>
    indices.map((row, i) => {
      const { path = null, crop = null, tile = null, clipStart = null } = places.get(row) ?? {};
      const part = {
        ...(crop === null ? {} : { crop }),
        ...(tile ? { tile } : {}),
        ...(clipStart === null ? {} : { clipStart }),
      };
      return { rank: i + 1, score: scoreOf(metric, values[i]!), path, row, ...part };
    }),
  );
}
