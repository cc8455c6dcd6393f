/** What is done with every request, whatever its route: let in, counted, given up, refused. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { RequestState } from './context.js';
import type { Gate } from './gate.js';
import { HttpError, replyOf } from './http-error.js';
import type { ServiceSetup } from './service-options.js';

/** What requests are checked against. */
export interface RequestRules {
  readonly setup: Pick<ServiceSetup, 'onError'>;
  readonly gate: Gate;
  readonly isClosing: () => boolean;
  readonly isQueueFull: () => boolean;
  /** See {@link Metrics.request}. */
  readonly onDone: (route: string, status: number, seconds: number) => void;
}

/** A request whose client went away before the answer; as nginx has it. */
const CLIENT_GONE = 499;

/** The requests that are being answered. */
export class Requests {
  readonly #rules: RequestRules;
  readonly #states = new WeakMap<IncomingMessage, RequestState>();
  readonly #open = new Set<AbortController>();
  /** Requests that are being answered, by connection. */
  readonly #connections = new Map<Socket, number>();

  constructor(rules: RequestRules) {
    this.#rules = rules;
  }

  /** Has requests go through here. */
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
      // Else the connection would stay open for the next request, and the server with it.
      if (this.#rules.isClosing()) void reply.header('connection', 'close');
      done();
    });
    app.server.on('connection', (socket: Socket) => {
      if (this.#rules.isClosing()) socket.destroy();
      else this.#connections.set(socket, 0);
      socket.once('close', () => this.#connections.delete(socket));
    });
    app.setErrorHandler((error, request, reply) => this.#sendError(request, reply, error));
    app.setNotFoundHandler((request) => {
      throw new HttpError('NOT_FOUND', `there is no ${request.method} ${request.url}; see /openapi.json`);
    });
  }

  /** What belongs to a request that was let in. */
  stateOf(request: FastifyRequest): RequestState {
    return this.#states.get(request.raw)!;
  }

  /** Gives up all that is being answered. */
  abort(reason: Error): void {
    for (const controller of this.#open) controller.abort(reason);
  }

  /**
   * Ends connections that no request has come from: Node's own list of idle ones leaves out those that never had one, and
   * its timeouts end with the server.
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
      if (!isDone) controller.abort(new Error('the client went away'));
      this.#rules.onDone(
        route,
        isDone ? reply.statusCode : CLIENT_GONE,
        (performance.now() - started) / 1000,
      );
    });
    if (config.isOpen) return;
    const { gate, isClosing, isQueueFull } = this.#rules;
    gate.checkToken(request.headers.authorization);
    if (isClosing()) throw new HttpError('SHUTTING_DOWN', 'the service is shutting down');
    const encoding = request.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity')
      throw new HttpError('MEDIA_TYPE_UNSUPPORTED', `the body is encoded (${encoding}); send it as it is`);
    if (config.isQueued && isQueueFull())
      throw new HttpError('QUEUE_FULL', 'the queue is full; try again later');
    const admission = gate.enter(lengthOf(request));
    release = () => admission.release();
    this.#states.set(request.raw, { admission, signal: controller.signal });
  }

  #sendError(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
    const state = this.#states.get(request.raw);
    if (replyOf(error).status === 500 && state?.signal.aborted !== true) this.#rules.setup.onError?.(error);
    return sendError(request, reply, error);
  }
}

/** Bytes of the body, as far as the request says. */
function lengthOf({ headers }: FastifyRequest): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return undefined;
  return Number(headers['content-length'] ?? 0);
}

/** Sends an error, in the form of the Open Inference Protocol or in our own. */
export function sendError(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  const { status, code, message, retryAfter } = replyOf(error);
  const isV2 = /^\/v2(?:[/?]|$)/.test(request.url);
  if (retryAfter !== undefined) void reply.header('retry-after', retryAfter);
  if (status === 401) void reply.header('www-authenticate', 'Bearer');
  return reply
    .code(status)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify({ error: isV2 ? `${message} [${code}]` : { code, message } }));
}

/** Answers what is no HTTP request, or has not become one in time. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const refused =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? new HttpError('REQUEST_TIMEOUT', 'the request took too long to arrive')
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? new HttpError('HEADERS_TOO_LARGE', 'the headers are too long')
        : new HttpError('REQUEST_INVALID', 'this is no HTTP request');
  const { status, code, message } = refused;
  const body = JSON.stringify({ error: { code, message } });
  const head = `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  if (socket.writable) socket.write(`${head}\r\n\r\n${body}`);
  socket.destroy();
}
