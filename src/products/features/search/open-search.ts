/** A dataset that is asked again and again: the models of queries are opened once. */
import { modelPathOf, type OnnxModel } from '../../../run/model/open/open-model.js';
import { openRecordedModel, readRecordedModel } from '../../../datasets/embed/recorded-model.js';
import { readOptions, unchecked, type Fields } from '../../../base/options.js';
import { TapirError } from '../../../base/errors.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Options } from '../../../base/checks.js';
import { readLiveRows } from '../../../datasets/labels/live-rows.js';
import type { RowSet } from '../../../base/row-set.js';
import { findTextTower } from '../text/text-tower.js';
import { QueryModels } from './query-models.js';
import {
  checkDataset,
  chooseKey,
  isList,
  SEARCH_FIELDS,
  searchVectors,
  type SearchHit,
  type SearchOptions,
} from './search-dataset.js';
import { readSearchQuery, type SearchQuery } from './search-query.js';
import { StoredScores } from './stored-scores.js';

/** Options of {@link openSearch}. */
export interface OpenSearchOptions extends Pick<SearchOptions, 'key' | 'textModel' | 'device'> {
  /**
   * The model that made the dataset, or its path, for queries with images; for texts, too, if its text tower lies beside it.
   * @default undefined
   */
  readonly model: string | OnnxModel | undefined;
}

/** Options of {@link DatasetSearch.search}. */
export type QueryOptions = Omit<SearchOptions, 'key' | 'model' | 'textModel' | 'device'>;

const { key, textModel, device, model: _, ...QUERY_FIELDS } = SEARCH_FIELDS;

// The model is checked by what opens it.
const OPEN_FIELDS: Fields<OpenSearchOptions> = { key, textModel, device, model: unchecked(undefined) };

/** A dataset that answers queries. Made by {@link openSearch}. */
export interface DatasetSearch extends AsyncDisposable {
  /** Output key of the features that are searched. */
  readonly key: string;
  /** Whether queries may have texts. */
  readonly takesTexts: boolean;
  /** Whether queries may have images. */
  readonly takesImages: boolean;
  /**
   * As {@link searchDataset}. The first query with words or photos opens a session, which stays open.
   *
   * @throws {@link TapirError} `CLOSED`; those of {@link searchDataset}.
   */
  search(
    query: readonly (Float32Array | readonly number[])[] | SearchQuery,
    given?: Options<QueryOptions>,
  ): Promise<SearchHit[][]>;
  /** Ends the sessions. Idempotent. */
  close(): Promise<void>;
}

/**
 * Opens a dataset for many queries, such as those of a service: {@link searchDataset} opens the models of a query each time.
 *
 * @param dataset - From {@link openDataset}.
 * @param given - See {@link OpenSearchOptions}.
 * @returns What answers queries. Close it after use.
 * @throws {@link TapirError} `OPTION_INVALID`; `CHECKSUM_MISMATCH` for another model; those of {@link openModel}.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { openSearch } from 'onnx-tapir/features';
 *
 * const search = await openSearch(await openDataset('vectors'), { model: 'clip/onnx/vision_model.onnx' });
 * for (const text of ['a dog', 'a red car']) {
 *   const [hits] = await search.search({ text }, { top: 3 });
 *   console.log(text, hits?.map(({ path }) => path));
 * }
 * await search.close();
 * ```
 */
export async function openSearch(
  dataset: Dataset,
  given: Options<OpenSearchOptions> = {},
): Promise<DatasetSearch> {
  checkDataset(dataset);
  const { device, textModel, ...options } = readOptions(OPEN_FIELDS, given, 'openSearch');
  const key = chooseKey(dataset, options.key);
  // Compared once: queries take the open model.
  const model = options.model && (await openRecordedModel(readRecordedModel(dataset), options.model));
  const tower = textModel ?? (model && modelPathOf(model));
  const takesTexts = tower !== undefined && (await findTextTower(tower)) !== undefined;
  const models = new QueryModels(dataset, { key, model, textModel, device });
  let isClosed = false;
  let stored: Promise<StoredScores> | undefined;
  let live: Promise<RowSet> | undefined;
  const close = async (): Promise<void> => {
    isClosed = true;
    await models.close();
    await (await stored?.catch(() => undefined))?.[Symbol.asyncDispose]();
  };
  const onFailure = (error: unknown): never => {
    stored = live = undefined;
    throw error;
  };
  return {
    key,
    takesTexts,
    takesImages: model !== undefined,
    async search(query, asked = {}) {
      if (isClosed) throw new TapirError('CLOSED', 'the search is closed', { details: { what: 'search' } });
      const options = readOptions(QUERY_FIELDS, asked, 'search');
      const vectors = isList(query) ? query : [await readSearchQuery(query, models, options.signal)];
      stored ??= StoredScores.open(dataset, key, device, true).catch(onFailure);
      // Labels may change between two questions, rows do not.
      if (options.where === undefined) live ??= readLiveRows(dataset).catch(onFailure);
      const known = options.where === undefined ? await live : undefined;
      return searchVectors(dataset, await stored, key, vectors, options, known);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
