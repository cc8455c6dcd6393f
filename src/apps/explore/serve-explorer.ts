/** The page of a model, served to this machine. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { basename, dirname, extname, join, resolve } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { invalidOption } from '../../base/checks.js';
import { reasonOf, TapirError } from '../../base/errors.js';
import type { Explorer } from './explorer.js';
import { answerQuestion, problemOf } from './questions.js';
import { renderExplorer } from './render-explorer.js';

const HOST = '127.0.0.1';
const MAX_PHOTO_BYTES = 64 * 1024 ** 2;
/** The header that requests of the page carry. Pages of other sites cannot set it without a permission that nobody gives. */
const KEY_HEADER = 'x-tapir-key';

/** How a page is served. */
export interface ServingSetup {
  /** 0 for a free port. */
  readonly port: number;
  /** Names that the page proposes to return. */
  readonly picked: readonly string[];
  /** Folder in which cuts are saved. */
  readonly folder: string;
  /** Called with errors that are not the request's fault. */
  readonly onError: (error: unknown) => void;
}

/** A served page. */
export interface ServedExplorer {
  /** The address with its key: whoever knows it can use the page. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves the page of an explorer on a port of this machine, to this machine.
 *
 * @throws {@link TapirError} `ADDRESS_UNAVAILABLE`.
 */
export async function serveExplorer(explorer: Explorer, setup: ServingSetup): Promise<ServedExplorer> {
  const { fastify } = await import('fastify');
  const key = randomBytes(18).toString('base64url');
  const app = fastify({ bodyLimit: MAX_PHOTO_BYTES, forceCloseConnections: true });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body));
  app.addHook('onRequest', async (request, reply) => checkRequest(app, key, request, reply));
  app.setErrorHandler<Error & { statusCode?: number }>(async (error, _, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 500) setup.onError(error);
    return reply
      .code(status)
      .send({ problem: status >= 500 ? 'the explorer failed; its terminal says more' : error.message });
  });
  addRoutes(app, explorer, setup, key);
  try {
    await app.listen({ host: HOST, port: setup.port });
  } catch (error) {
    const reason = reasonOf(error);
    throw new TapirError('ADDRESS_UNAVAILABLE', `cannot listen on ${HOST}, port ${setup.port}: ${reason}`, {
      details: { host: HOST, port: setup.port, reason },
      cause: error,
    });
  }
  const address = app.server.address();
  const port = typeof address === 'object' && address ? address.port : setup.port;
  return { url: `http://${HOST}:${port}/?key=${key}`, close: () => app.close() };
}

function addRoutes(app: FastifyInstance, explorer: Explorer, setup: ServingSetup, key: string): void {
  const { picked, folder } = setup;
  app.get('/', async (_, reply) => {
    const { page: model, photos, noPhotos, photoNote, photoCode } = explorer;
    const html = await renderExplorer({
      model,
      key,
      photos,
      recorded: {},
      picked,
      noPhotos,
      photoNote,
      photoCode,
    });
    return reply.type('text/html; charset=utf-8').send(html);
  });
  app.get('/favicon.ico', async (_, reply) => reply.code(204).send());
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
}

/**
 * Lets through what comes from the page itself: the host must be this machine, so that no other name leads here, and everything but the
 * page's icon needs the key.
 */
async function checkRequest(
  app: FastifyInstance,
  key: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const address = app.server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  reply.headers({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'cross-origin-resource-policy': 'same-origin',
  });
  if (![`${HOST}:${port}`, `localhost:${port}`].includes(request.headers.host ?? ''))
    return reply.code(403).send({ problem: 'this page is for this machine only' });
  const { pathname, searchParams } = new URL(request.url, `http://${HOST}`);
  if (pathname === '/favicon.ico') return;
  const given = pathname === '/' ? searchParams.get('key') : request.headers[KEY_HEADER];
  if (typeof given !== 'string' || !isSame(given, key))
    return reply.code(403).send({ problem: 'the key is missing: use the address that the terminal shows' });
}

function isSame(given: string, key: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(key)];
  return a.length === b.length && timingSafeEqual(a, b);
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
  let given: unknown;
  try {
    given = JSON.parse(String(body ?? ''));
  } catch (error) {
    throw invalidOption('body', 'JSON', reasonOf(error));
  }
  const { names, file } = Object(given) as { readonly names?: unknown; readonly file?: unknown };
  if (!Array.isArray(names) || names.some((name) => typeof name !== 'string'))
    throw invalidOption('names', 'a list of texts', names);
  if (typeof file !== 'string') throw invalidOption('file', 'a text', file);
  return { names: names as string[], file };
}
