/** The HTTP server under a service: fastify with our parsers, limits and routes. */
import type { FastifyInstance } from 'fastify';
import { TapirError, reasonOf } from '../../base/errors.js';
import type { ServiceContext } from './context.js';
import { embedRoute } from './embed-route.js';
import { inferRoutes, parseInferBodies } from './infer-routes.js';
import { infoRoutes } from './info-routes.js';
import { answerBrokenRequest, sendError, type Requests } from './requests.js';
import { addRoutes } from './route.js';

/** How often connections are looked at that are late. */
const CHECK_EVERY_MS = 5000;

/** Makes a server that is not yet listening. */
export async function createServer(context: ServiceContext, requests: Requests): Promise<FastifyInstance> {
  const [{ fastify }, { default: multipart }] = await Promise.all([
    import('fastify'),
    import('@fastify/multipart'),
  ]);
  const { maxBodyBytes, requestTimeoutMs, idleTimeoutMs, keepAliveTimeoutMs } = context.setup;
  const headersTimeout = Math.min(context.setup.headersTimeoutMs, requestTimeoutMs);
  const app = fastify({
    bodyLimit: maxBodyBytes,
    requestTimeout: requestTimeoutMs,
    connectionTimeout: idleTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    http: {
      headersTimeout,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.ceil(Math.min(CHECK_EVERY_MS, headersTimeout / 2)),
    },
    // Requests see to it themselves, with a body of our form.
    return503OnClosing: false,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
    frameworkErrors: (error, request, reply) => {
      sendError(request, reply, error);
    },
    clientErrorHandler: answerBrokenRequest,
  });
  app.removeContentTypeParser('text/plain');
  for (const type of [/^image\//, 'application/octet-stream'])
    app.addContentTypeParser(type, { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  await app.register(multipart);
  requests.addTo(app);
  const embed = embedRoute(context);
  const infer = inferRoutes(context);
  addRoutes(app, [embed, ...infoRoutes(context, [embed, ...infer])]);
  await app.register((scope, _options, done) => {
    parseInferBodies(scope);
    addRoutes(scope, infer);
    done();
  });
  return app;
}

/**
 * Binds a server.
 *
 * @returns Its URL.
 * @throws {@link TapirError} `ADDRESS_UNAVAILABLE`.
 */
export async function listenAt(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const reason = reasonOf(error);
    throw new TapirError('ADDRESS_UNAVAILABLE', `cannot listen on ${host}, port ${port}: ${reason}`, {
      details: { host, port, reason },
      cause: error,
    });
  }
  const address = app.server.address();
  if (address === null || typeof address === 'string') return String(address);
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${name}:${address.port}`;
}
