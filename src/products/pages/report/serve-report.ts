/** The page of a dataset, served to this machine: it can search, and save a selection as a column of the dataset. */
import { makeThumbnail } from '../../../photos/images/thumbnail.js';
import { invalidOption } from '../../../base/checks.js';
import { openSearch, type DatasetSearch } from '../../features/search/open-search.js';
import type { SearchHit } from '../../features/search/search-dataset.js';
import {
  problemOf,
  readJsonBody,
  servePage,
  type PageSetup,
  type ServedPage,
} from '../../../base/html/serve-page.js';
import { openModel } from '../../../run/model/open/open-model.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { nameOf } from './collect/collect-inputs.js';
import { SHOWN_SIDE, type MadeReport } from './make-report.js';
import type { SelectionToSave } from './own-columns.js';
import type { PageHit, PageHits, PagePicture } from './page/data.js';
import { MOST_CHARACTERS } from './sections/search-section.js';

/** How a report is served. */
interface ReportServing extends Pick<PageSetup, 'port' | 'onError'> {
  /** The model that made the dataset; undefined for a page that takes no photos. */
  readonly model: string | undefined;
  /** The text tower; undefined for the one beside `model`, if there is one. */
  readonly textModel: string | undefined;
  readonly device: Device;
}

/** {@link SearchFields} as JSON Schema. */
const SEARCH_FIELDS = {
  type: 'object',
  properties: { output: { type: 'string' }, text: { type: 'string' } },
} as const;

const PICTURE_FIELDS = {
  type: 'object',
  properties: { image: { type: 'integer', minimum: 0 } },
  required: ['image'],
} as const;

/** {@link SelectionToSave} as JSON Schema. */
const COLUMN_FIELDS = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    value: { type: 'string' },
    others: { type: 'string' },
    change: { type: 'boolean' },
  },
  required: ['name', 'value', 'others', 'change'],
} as const;

const REMOVE_FIELDS = {
  type: 'object',
  properties: { name: { type: 'string' } },
  required: ['name'],
} as const;

/** Serves a report to this machine. Throws `ADDRESS_UNAVAILABLE`; `CHECKSUM_MISMATCH` for another model; those of {@link openModel}. */
export async function serveReport(report: MadeReport, serving: ReportServing): Promise<ServedPage> {
  const { port, onError, ...models } = serving;
  const search = await ReportSearch.open(report, models);
  const { takesTexts, takesPhotos } = search;
  const page = await servePage({
    port,
    onError,
    render: (key) => report.render({ key, takesTexts, takesPhotos }),
    addRoutes: (app) => {
      app.get<{ Querystring: { readonly image: number } }>('/api/picture', {
        schema: { querystring: PICTURE_FIELDS },
        handler: async ({ query }): Promise<PagePicture> => ({
          picture: await report.makePictureAt(query.image),
        }),
      });
      app.post<{ Querystring: SelectionToSave }>('/api/column', {
        schema: { querystring: COLUMN_FIELDS },
        // The body has the places of the selected images.
        handler: async ({ query, body }) => {
          try {
            return await report.saveSelection(readJsonBody(body as Buffer | undefined), query);
          } catch (error) {
            return problemOf(error);
          }
        },
      });
      app.post<{ Querystring: { readonly name: string } }>('/api/remove-column', {
        schema: { querystring: REMOVE_FIELDS },
        handler: async ({ query }) => {
          try {
            await report.removeColumn(query.name);
            return { removed: query.name };
          } catch (error) {
            return problemOf(error);
          }
        },
      });
      app.route<{ Querystring: SearchFields }>({
        method: ['GET', 'POST'],
        url: '/api/search',
        schema: { querystring: SEARCH_FIELDS },
        handler: async ({ query, body }) => search.run(query, body as Buffer | undefined).catch(problemOf),
      });
    },
  });
  return {
    url: page.url,
    close: async () => {
      await page.close();
      await search.close();
    },
  };
}

/** What a page asks for: the key of an output, and words. */
interface SearchFields {
  readonly output?: string;
  readonly text?: string;
}

const HITS = 24;

/** Searches the whole dataset. Models of queries stay open until {@link ReportSearch.close}. */
class ReportSearch {
  readonly #report: MadeReport;
  readonly #searches: readonly DatasetSearch[];
  readonly takesTexts: boolean;
  readonly takesPhotos: boolean;

  private constructor(report: MadeReport, searches: readonly DatasetSearch[]) {
    this.#report = report;
    this.#searches = searches;
    this.takesTexts = searches.some(({ takesTexts }) => takesTexts);
    this.takesPhotos = searches.some(({ takesImages }) => takesImages);
  }

  /** Opens a search of each output. No session opens yet. */
  static async open(
    report: MadeReport,
    { model: path, ...options }: Pick<ReportServing, 'model' | 'textModel' | 'device'>,
  ): Promise<ReportSearch> {
    const { dataset } = report;
    // Its SHA-256 is computed once.
    const model = path === undefined ? undefined : await openModel(path);
    const keys = Object.keys(dataset.manifest.features);
    const searches = keys.map((key) => openSearch(dataset, { key, model, ...options }));
    return new ReportSearch(report, await Promise.all(searches));
  }

  /** Finds the images that are nearest to words, a photo, or their mean. Throws `OPTION_INVALID`, and those of {@link openSearch}. */
  async run({ output, text = '' }: SearchFields, photo: Uint8Array | undefined): Promise<PageHits> {
    if (text.length > MOST_CHARACTERS)
      throw invalidOption('text', `of at most ${MOST_CHARACTERS} characters`, text.length);
    const [only, ...others] = this.#searches;
    const isOnly = output === undefined && others.length === 0;
    const search = isOnly ? only : this.#searches.find(({ key }) => key === output);
    if (!search) {
      const keys = this.#searches.map(({ key }) => JSON.stringify(key)).join(', ');
      throw invalidOption('output', `a feature of the dataset (${keys})`, output);
    }
    const words = text.trim();
    const query = { text: words === '' ? [] : [words], images: photo ? [photo] : [] };
    const [found] = await search.search(query, { top: HITS });
    const picture = photo ? Buffer.from(await makeThumbnail(photo, SHOWN_SIDE)) : null;
    return {
      photo: picture?.toString('base64') ?? null,
      hits: await Promise.all(found!.map((hit) => this.#show(hit))),
    };
  }

  /** Ends the sessions. */
  async close(): Promise<void> {
    await Promise.all(this.#searches.map((search) => search.close()));
  }

  async #show(hit: SearchHit): Promise<PageHit> {
    const { row, score } = hit;
    return { name: nameOf(hit), row, cosine: score, picture: await this.#report.makePictureOf(hit) };
  }
}
