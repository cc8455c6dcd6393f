/** What happens to every request, whatever its route: it is admitted, counted, cancelled, or refused. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Admission, Gate } from './gate.js';
import { errorBody, HttpError, replyOf, type HttpCode } from './http-error.js';
import { isOpenAiPath, openAiErrorOf } from './openai-error.js';
import { encodingOf, isCompressed } from './read-body.js';

export interface RequestState {
  readonly admission: Admission;
  /** Fires when the client has gone, or when the service stops waiting for the request. */
  readonly signal: AbortSignal;
}

export interface RequestRules {
  readonly gate: Gate;
  /** Whether the service refuses new requests. */
  readonly isClosed: () => boolean;
  /** Whether each answer ends its connection. */
  readonly isClosing: () => boolean;
  readonly isQueueFull: () => boolean;
  /** Called when a request is over; see {@link Metrics.request}. */
  readonly onDone: (route: string, status: number, seconds: number) => void;
  /** Called with errors that are not a request's fault. */
  readonly onError: ((error: unknown) => void) | undefined;
}

/** Seconds after which a client may try again if there was no room. */
const RETRY_AFTER_SECONDS = 1;
/** What to do about a path of the Open Inference Protocol. */
const NO_V2 =
  'images go to /embed and probes to /health/ready; for tensors by the Open Inference Protocol, give the cut to Triton, KServe or ' +
  'OpenVINO Model Server: it is a plain ONNX file (docs/guides/other-servers.md)';
/** Time between two looks while the service stops. */
const POLL_MS = 5;

export class Requests {
  readonly #rules: RequestRules;
  readonly #states = new WeakMap<IncomingMessage, RequestState>();
  readonly #open = new Set<AbortController>();
  /** Connections of the service's own server, with the number of requests in progress on each. */
  readonly #connections = new Map<Socket, number>();
  #accepted = 0;

  constructor(rules: RequestRules) {
    this.#rules = rules;
  }

  addTo(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      try {
        this.#enter(request, reply);
        done();
      } catch (error) {
        done(error as Error);
      }
    });
    app.addHook('onSend', (_request, reply, _payload, done) => {
      if (this.#rules.isClosing()) void reply.header('connection', 'close');
      done();
    });
    app.server.on('connection', (socket: Socket) => {
      this.#connections.set(socket, 0);
      this.#accepted++;
      socket.once('close', () => this.#connections.delete(socket));
    });
    app.setErrorHandler((error, request, reply) => this.#sendError(request, reply, error));
    app.setNotFoundHandler(({ method, url }) => {
      const advice = /^\/v2(?:[/?]|$)/.test(url) ? NO_V2 : 'see /openapi.json';
      throw new HttpError('NOT_FOUND', `there is no ${method} ${url}; ${advice}`);
    });
  }

  stateOf(request: FastifyRequest): RequestState {
    return this.#states.get(request.raw)!;
  }

  /**
   * Takes the connections that the system has accepted and the event loop has not, `mostMs` at most: the end of listening would reset
   * them, and with them requests that are wholly sent.
   */
  async acceptWaiting(mostMs: number): Promise<void> {
    const last = performance.now() + mostMs;
    for (let seen = -1; seen !== this.#accepted && performance.now() < last;) {
      seen = this.#accepted;
      // In a turn, the loop takes one or more, before its immediate callbacks.
      // oxlint-disable-next-line no-await-in-loop -- one turn after the other
      for (let turn = 0; turn < 2; turn++) await setImmediate();
    }
  }

  /** Waits until all connections have ended, `mostMs` at most. */
  async drain(mostMs: number): Promise<void> {
    const last = performance.now() + mostMs;
    while (this.#connections.size > 0 && performance.now() < last) await setTimeout(POLL_MS);
  }

  /** Waits until all requests in progress are over. */
  async settle(): Promise<void> {
    while (this.#open.size > 0) await setTimeout(POLL_MS);
  }

  abort(reason: Error): void {
    for (const controller of this.#open) controller.abort(reason);
  }

  /**
   * Ends connections without a request. Node's own list of idle connections leaves out those that never had a request, and its
   * timeouts stop with the server.
   */
  closeIdle(): void {
    for (const [socket, requests] of this.#connections) if (requests === 0) socket.destroy();
  }

  #countOn(socket: Socket, requests: 1 | -1): void {
    const before = this.#connections.get(socket);
    if (before !== undefined) this.#connections.set(socket, before + requests);
  }

  #enter(request: FastifyRequest, reply: FastifyReply): void {
    const started = performance.now();
    const { config, url: route = 'unknown' } = request.routeOptions;
    const controller = new AbortController();
    let release = (): void => undefined;
    this.#open.add(controller);
    const { socket } = request;
    this.#countOn(socket, 1);
    reply.raw.once('close', () => {
      this.#open.delete(controller);
      this.#countOn(socket, -1);
      release();
      const isDone = reply.raw.writableFinished;
      const gone = new HttpError('CLIENT_GONE', 'the client went away');
      if (!isDone) controller.abort(gone);
      const status = isDone ? reply.statusCode : gone.status;
      this.#rules.onDone(route, status, (performance.now() - started) / 1000);
    });
    if (config.route?.isOpen) return;
    const { gate, isClosed, isQueueFull } = this.#rules;
    const { headers } = request;
    gate.checkToken(headers.authorization);
    if (isClosed()) throw new HttpError('SHUTTING_DOWN', 'the service is shutting down');
    const encoding = encodingOf(headers);
    if (encoding !== 'identity' && !(config.route?.body && isCompressed(headers)))
      throw new HttpError(
        'MEDIA_TYPE_UNSUPPORTED',
        `the body is encoded (${encoding.slice(0, 40)}); send it unchanged`,
      );
    if (config.route?.isQueued && isQueueFull())
      throw new HttpError('QUEUE_FULL', 'the queue is full; try again later');
    const admission = gate.enter(lengthOf(request));
    release = () => admission.release();
    this.#states.set(request.raw, { admission, signal: controller.signal });
  }

  #sendError(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
    const state = this.#states.get(request.raw);
    if (replyOf(error).status === 500 && state?.signal.aborted !== true) this.#rules.onError?.(error);
    return sendError(request, reply, isMediaTypeError(error) ? wrongMediaType(request, error) : error);
  }
}

/** Whether Fastify has found no parser for the body. */
function isMediaTypeError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE';
}

function wrongMediaType({ url, headers, routeOptions }: FastifyRequest, cause: unknown): HttpError {
  const types = Object.keys(routeOptions.config.route?.body ?? {}).join(', ');
  const given = headers['content-type']?.slice(0, 100) ?? 'a body without Content-Type';
  const path = url.split('?', 1)[0]!;
  return new HttpError('MEDIA_TYPE_UNSUPPORTED', `${path} takes ${types}, not ${given}`, { cause });
}

/** Bytes of the body in memory, if the request tells. */
function lengthOf({ headers }: FastifyRequest): number | undefined {
  if (headers['transfer-encoding'] !== undefined || isCompressed(headers)) return undefined;
  return Number(headers['content-length'] ?? 0);
}

/** Sends an error: below `/v1` in the format of OpenAI's API, else in our own. */
export function sendError(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  const { status } = replyOf(error);
  if (status === 503 || status === 429) void reply.header('retry-after', RETRY_AFTER_SECONDS);
  if (status === 401) void reply.header('www-authenticate', 'Bearer');
  const body = isOpenAiPath(request.url) ? openAiErrorOf(error) : errorBody(error);
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

const NOT_HTTP = ['REQUEST_INVALID', 'this is not an HTTP request'] as const;
/** Refusals by the code of Node's error. */
const BROKEN: Readonly<Record<string, readonly [code: HttpCode, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'the request took too long to arrive'],
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'the headers are too long'],
  HPE_INVALID_EOF_STATE: ['REQUEST_INVALID', 'the request ended early'],
};

/** Answers bytes that are not an HTTP request, or have not become one in time. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const refused = new HttpError(...(BROKEN[error.code ?? ''] ?? NOT_HTTP));
  const body = JSON.stringify(errorBody(refused));
  const head = `HTTP/1.1 ${refused.status} Refused\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  if (socket.writable) socket.write(`${head}\r\n\r\n${body}`);
  socket.destroy();
}
