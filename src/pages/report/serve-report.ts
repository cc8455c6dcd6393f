/** The page of a dataset, served to this machine, with a search. */
import { openRecordedModel, readRecordedModel } from '../../datasets/embed/recorded-model.js';
import type { Device } from '../../runtime/lanes/device.js';
import { findTextTower } from '../../features/text/text-tower.js';
import { problemOf, servePage, type ServedPage } from '../../html/serve-page.js';
import type { MadeReport } from './make-report.js';
import { ReportSearch, type SearchFields } from './report-search.js';

/** How a report is served. */
export interface ReportServing {
  /** 0 for a free port. */
  readonly port: number;
  /** The model that made the dataset; undefined for a page that takes no photos. */
  readonly model: string | undefined;
  /** The text tower; undefined for the one beside `model`, if there is one. */
  readonly textModel: string | undefined;
  readonly device: Device;
  /** Called with errors that are not the request's fault. */
  readonly onError: (error: unknown) => void;
}

/** {@link SearchFields} as JSON Schema. */
const SEARCH_FIELDS = {
  type: 'object',
  properties: { output: { type: 'string' }, text: { type: 'string' } },
} as const;

/**
 * Serves a report on a port of this machine, to this machine. Models of queries stay open until it is closed.
 *
 * @throws {@link TapirError} `ADDRESS_UNAVAILABLE`; `CHECKSUM_MISMATCH` for another model than the dataset's; those of
 * {@link openModel}.
 */
export async function serveReport(report: MadeReport, serving: ReportServing): Promise<ServedPage> {
  const { port, textModel, device, onError } = serving;
  // Its SHA-256 is computed once: queries take the open model.
  const model =
    serving.model === undefined
      ? undefined
      : await openRecordedModel(readRecordedModel(report.dataset), serving.model);
  const tower = textModel ?? serving.model;
  const takesTexts = tower !== undefined && (await findTextTower(tower)) !== undefined;
  const search = new ReportSearch(report, { model, textModel, device });
  const page = await servePage({
    port,
    onError,
    render: (key) => report.render({ key, takesTexts, takesPhotos: model !== undefined }),
    addRoutes: (app) =>
      app.route<{ Querystring: SearchFields }>({
        method: ['GET', 'POST'],
        url: '/api/search',
        schema: { querystring: SEARCH_FIELDS },
        handler: async ({ query, body }) => search.run(query, body as Buffer | undefined).catch(problemOf),
      }),
  });
  return {
    url: page.url,
    close: async () => {
      await page.close();
      await search.close();
    },
  };
}
