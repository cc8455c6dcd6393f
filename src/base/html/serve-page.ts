/** Serves a page to this machine, and to nobody else. */
import { shown } from '../printable.js';
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { invalidOption } from '../checks.js';
import { isTapirError, reasonOf, TapirError } from '../errors.js';
import { KEY_HEADER } from './browser/ask-server.js';

const HOST = '127.0.0.1';
const MAX_BODY_BYTES = 64 * 1024 ** 2;

/** A page that is served. */
export interface PageSetup {
  /** Port of this machine; 0 for a free one. */
  readonly port: number;
  /** Writes the page, which sends the key with everything that it asks. */
  readonly render: (key: string) => Promise<Uint8Array>;
  /** Adds what the page asks, below `/api/`. Bodies are buffers. */
  readonly addRoutes: (app: FastifyInstance) => void;
  /** Called with errors that are not the request's fault. */
  readonly onError: (error: unknown) => void;
}

/** A page while it is served. */
export interface ServedPage {
  /** The address with its key, which is all that a reader needs to use the page. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves a page on a port of this machine. Throws `ADDRESS_UNAVAILABLE`. */
export async function servePage({ port, render, addRoutes, onError }: PageSetup): Promise<ServedPage> {
  const { fastify } = await import('fastify');
  const key = randomBytes(18).toString('base64url');
  const app = fastify({ bodyLimit: MAX_BODY_BYTES, forceCloseConnections: true });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body));
  app.addHook('onRequest', async (request, reply) => checkRequest(app, key, request, reply));
  app.setErrorHandler<Error & { statusCode?: number }>(async (error, _, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 500) onError(error);
    return reply
      .code(status)
      .send({ problem: status >= 500 ? 'the command failed; its terminal says more' : error.message });
  });
  app.get('/', async (_, reply) => reply.type('text/html; charset=utf-8').send(await render(key)));
  app.get('/favicon.ico', async (_, reply) => reply.code(204).send());
  addRoutes(app);
  try {
    await app.listen({ host: HOST, port });
  } catch (error) {
    const reason = reasonOf(error);
    throw new TapirError('ADDRESS_UNAVAILABLE', `cannot listen on ${HOST}, port ${port}: ${reason}`, {
      details: { host: HOST, port, reason },
      cause: error,
    });
  }
  return { url: `http://${HOST}:${portOf(app)}/?key=${key}`, close: () => app.close() };
}

/** What the body of a request says. Throws `OPTION_INVALID` for what is no JSON. */
export function readJsonBody(body: Buffer | undefined): unknown {
  try {
    return JSON.parse(String(body ?? ''));
  } catch (error) {
    throw invalidOption('body', 'JSON', reasonOf(error));
  }
}

/** The answer for an error of what the page works with, such as a photo. Other errors are thrown again. */
export function problemOf(error: unknown): { readonly problem: string } {
  if (!isTapirError(error)) throw error;
  return { problem: error.message.split('\n').map(shown).join('\n') };
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
  reply.headers({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'cross-origin-resource-policy': 'same-origin',
  });
  const port = portOf(app);
  if (![`${HOST}:${port}`, `localhost:${port}`].includes(request.headers.host ?? ''))
    return reply.code(403).send({ problem: 'this page is for this machine only' });
  const { url: route } = request.routeOptions;
  if (route === '/favicon.ico') return;
  const { key: inAddress } = request.query as Readonly<Record<string, unknown>>;
  const given = route === '/' ? inAddress : request.headers[KEY_HEADER];
  if (typeof given !== 'string' || !isSame(given, key))
    return reply.code(403).send({ problem: 'the key is missing: use the address that the terminal shows' });
}

function portOf(app: FastifyInstance): number {
  const address = app.server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

function isSame(given: string, key: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(key)];
  return a.length === b.length && timingSafeEqual(a, b);
}
