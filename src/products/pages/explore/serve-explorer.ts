/** The page of a model, served to this machine. */
import { basename, dirname, extname, join, resolve } from 'node:path';
import { invalidOption } from '../../../base/checks.js';
import {
  problemOf,
  readJsonBody,
  servePage,
  type PageSetup,
  type ServedPage,
} from '../../../base/html/serve-page.js';
import type { Explorer } from './explorer.js';
import { answerQuestion } from './questions.js';
import { renderExplorer } from './render-explorer.js';

/** How a page is served. */
export interface ServingSetup extends Pick<PageSetup, 'port' | 'onError'> {
  /** Nodes and boxes that the page proposes to return. */
  readonly picked: readonly number[];
  /** Folder in which cuts are saved. */
  readonly folder: string;
}

/** Serves the page of an explorer to this machine. Throws `ADDRESS_UNAVAILABLE`. */
export async function serveExplorer(
  explorer: Explorer,
  { port, picked, folder, onError }: ServingSetup,
): Promise<ServedPage> {
  return servePage({
    port,
    onError,
    render: (key) => renderExplorer(explorer, { key, recorded: {}, picked }),
    addRoutes: (app) => {
      app.get<{ Params: { question: string } }>('/api/:question', async (request, reply) => {
        const answer = await answerQuestion(explorer, request.url.slice('/api/'.length));
        return answer === undefined ? reply.code(404).send({ problem: 'no such question' }) : answer;
      });
      app.post<{ Querystring: { name?: string } }>('/api/photo', async ({ body, query }) =>
        explorer.addPhoto(body as Buffer, query.name ?? 'photo').catch(problemOf),
      );
      app.post('/api/save', async ({ body }) =>
        saveCut(explorer, folder, body as Buffer | undefined).catch(problemOf),
      );
    },
  });
}

/** Saves a cut: a new file in a folder, by a plain name. */
async function saveCut(explorer: Explorer, folder: string, body: Buffer | undefined): Promise<unknown> {
  const { names, file } = readSave(body);
  const path = resolve(join(folder, file));
  if (
    basename(file) !== file ||
    dirname(path) !== resolve(folder) ||
    extname(file) !== '.onnx' ||
    /[\\/\0]/.test(file)
  )
    throw invalidOption('file', 'a plain name that ends in .onnx', file);
  const pruned = await explorer.prune(names);
  await pruned.save(path, { weights: pruned.plan.kept.externalFiles.length > 0 ? 'inline' : 'keep' });
  return { path, bytes: pruned.plan.kept.bytes };
}

/** Reads `{ names, file }`. Throws `OPTION_INVALID`. */
function readSave(body: Buffer | undefined): { readonly names: readonly string[]; readonly file: string } {
  const { names, file } = Object(readJsonBody(body)) as { readonly names?: unknown; readonly file?: unknown };
  if (!Array.isArray(names) || names.some((name) => typeof name !== 'string'))
    throw invalidOption('names', 'a list of texts', names);
  if (typeof file !== 'string') throw invalidOption('file', 'a text', file);
  return { names: names as string[], file };
}
