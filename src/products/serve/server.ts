/** The HTTP server of a service: Fastify with our parsers, limits and routes. */
import { Server } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { reasonOf, TapirError } from '../../base/errors.js';
import type { ServiceContext } from './routes/context.js';
import { classifyRoute } from './routes/classify-route.js';
import { embedRoute, parseEmbedBodies, parseJsonBodies } from './routes/embed-route.js';
import { answerHalfClosed } from './http/half-closed.js';
import { describeSchemaError } from './http/schema-error.js';
import { answerBrokenRequest, sendError, type Requests } from './http/requests.js';
import { addRoutes } from './http/route.js';
import { takeTurns } from './http/turns.js';
import { healthRoutes, infoRoutes } from './routes/info-routes.js';
import { openAiRoutes } from './routes/openai-routes.js';
import { errorAnswer } from './bodies/schemas.js';

/** Longest time between two looks for connections that are late. */
const CHECK_EVERY_MS = 5000;

/** Makes a server that is ready, but not listening. */
export async function createServer(context: ServiceContext, requests: Requests): Promise<FastifyInstance> {
  const [{ fastify }, { default: multipart }, { default: swagger }] = await Promise.all([
    import('fastify'),
    import('@fastify/multipart'),
    import('@fastify/swagger'),
  ]);
  const { setup, version } = context;
  const { maxBodyBytes, requestTimeoutMs, idleTimeoutMs, keepAliveTimeoutMs } = setup;
  const headersTimeout = Math.min(setup.headersTimeoutMs, requestTimeoutMs);
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
    // Requests refuses them, in our own format.
    return503OnClosing: false,
    schemaErrorFormatter: ([first], scope) =>
      new Error(first ? describeSchemaError(first, scope) : `${scope} is invalid`),
    // "verbose" gives errors the schema that they are about.
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, verbose: true },
    },
    frameworkErrors: (error, request, reply) => {
      sendError(request, reply, error);
    },
    clientErrorHandler: answerBrokenRequest,
  });
  // Schemas of answers are for the document; they leave the answers unchanged.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  takeTurns(app.server);
  answerHalfClosed(app.server);
  requests.addTo(app);
  const hasToken = setup.token !== undefined;
  const scheme = { token: { type: 'http', scheme: 'bearer' } } as const;
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'onnx-tapir',
        version,
        description: 'Features of images, by HTTP: /embed, /classify, and OpenAI’s /v1/embeddings.',
      },
      ...(hasToken ? { components: { securitySchemes: scheme } } : {}),
    },
  });
  const defaults = { error: errorAnswer, hasToken };
  addRoutes(app, [...infoRoutes(context, () => app.swagger()), ...healthRoutes(context)], defaults);
  await app.register(async (scope) => {
    parseEmbedBodies(scope, setup);
    await scope.register(multipart);
    addRoutes(scope, [embedRoute(context), classifyRoute(context)], defaults);
  });
  await app.register(async (scope) => {
    parseJsonBodies(scope, setup);
    addRoutes(scope, openAiRoutes(context), defaults);
  });
  await app.ready();
  return app;
}

/** What to do if an address cannot be bound, by the system's code. */
const ADVICE: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there; choose another port, or 0 for a free one',
  EACCES: 'this user may not use the port; choose one from 1024 on',
  EADDRNOTAVAIL: 'this machine does not have the address; use 127.0.0.1, or 0.0.0.0 for all addresses',
  ENOTFOUND: 'the name does not resolve; use an address of this machine',
};

/** Binds a server, and returns its URL. Throws `ADDRESS_UNAVAILABLE`. */
export async function listenAt(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    const reason = ADVICE[code] ?? reasonOf(error);
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

/** Accepts no more connections, and keeps those that are open. The server's own `close` would cut idle ones at once. */
export function stopListening(app: FastifyInstance): void {
  Server.prototype.close.call(app.server);
}
