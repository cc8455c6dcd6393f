/** An extractor as an HTTP service: how it starts, is mounted, and stops. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { integer, readOptions, text, type Fields } from '../../base/options.js';
import { packageVersion } from '../../base/package.js';
import { TapirError } from '../../base/errors.js';
import type { Extractor } from '../../extract/extractor.js';
import type { Options } from '../../base/checks.js';
import { readClassScores } from './batches/class-scores.js';
import { Gate } from './http/gate.js';
import { errorBody, HttpError, replyOf } from './http/http-error.js';
import { Requests } from './http/requests.js';
import { openImageBatcher, type OpenBatcher } from './batches/image-batcher.js';
import { createMetrics } from './batches/metrics.js';
import { createServer, listenAt, stopListening } from './server.js';
import { openTextBatcher, type TextBatcher } from './batches/text-batcher.js';
import { setUpService, type ServiceOptions, type ServiceSetup } from './batches/service-options.js';

/** Where a service listens. */
export interface ListenOptions {
  /**
   * Name or address to bind to; `'0.0.0.0'` or `'::'` for all addresses.
   * @default '127.0.0.1'
   */
  readonly host: string;
  /**
   * Port, an integer from 0 to 65535; 0 chooses a free port.
   * @default 8000
   */
  readonly port: number;
}

export const LISTEN_FIELDS: Fields<ListenOptions> = {
  host: text('127.0.0.1', 'address to bind to; 0.0.0.0 for all'),
  port: integer(0, 65_535, 8000, 'port; 0 takes a free one'),
};

/** An HTTP service, from {@link createService}. */
export interface Service {
  /** Where the service listens, such as `http://127.0.0.1:8000`; null while it does not listen. */
  readonly url: string | null;
  /**
   * Answers a request of another server: mount it in Node's `http`, in Express, or in Fastify.
   *
   * @remarks The first request starts the service if {@link Service.ready} has not. If a parser has read the body
   * before, as those of Express do, `request.body` is used; forms need the body unread. The
   * limits of time for requests, headers and idle connections are those of the other server.
   */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /**
   * Starts without listening: loads the server, and runs one image to warm up.
   *
   * @throws {@link TapirError} `OUTPUT_NOT_BATCHED`; `CLOSED`; errors of a run.
   */
  ready(): Promise<void>;
  /**
   * Starts and listens, once.
   *
   * @returns The URL.
   * @throws {@link TapirError} `ADDRESS_UNAVAILABLE`; `OPTION_INVALID`; those of {@link Service.ready}.
   */
  listen(given?: Options<ListenOptions>): Promise<string>;
  /**
   * Stops: takes the connections that wait, accepts no more, answers the requests of open ones within `shutdownTimeoutMs`, answers the rest with status
   * 503, and ends its threads. Idempotent. The extractor stays open.
   */
  close(): Promise<void>;
  /** Same as {@link Service.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Grace period for requests that clients have sent on open connections before they saw the connection end. */
const DRAIN_MS = 500;
/** Grace period for clients to read the 503 before their connections are cut. */
const FAREWELL_MS = 1000;

/**
 * Creates an HTTP service of an extractor: `POST /embed` for images, OpenAI's `POST /v1/embeddings`, and `POST /classify` for models
 * with labels. It gathers the images of all requests into batches.
 *
 * @param extractor - From {@link createFeatureExtractor}. It stays open; close it after the service.
 * @param given - See {@link ServiceOptions}.
 * @returns The service, which does not listen yet; close it after use.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor } from 'onnx-tapir';
 * import { createService } from 'onnx-tapir/serve';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * const service = createService(extractor, { name: 'resnet50', token: 'secret' });
 * console.log(await service.listen({ port: 8000 })); // http://127.0.0.1:8000
 * process.once('SIGTERM', async () => {
 *   await service.close();
 *   await extractor.close();
 * });
 * ```
 *
 * @example Mounted in a server of your own, for all paths below `/tapir`:
 * ```ts
 * import { createServer } from 'node:http';
 * import { createFeatureExtractor } from 'onnx-tapir';
 * import { createService } from 'onnx-tapir/serve';
 *
 * const service = createService(await createFeatureExtractor('resnet50.onnx', ['avgpool']));
 * await service.ready();
 * createServer((request, response) => {
 *   request.url = request.url!.replace(/^\/tapir/, '') || '/';
 *   service.handler(request, response);
 * }).listen(8000);
 * ```
 */
export function createService(extractor: Extractor, given: Options<ServiceOptions> = {}): Service {
  return new HttpService(extractor, setUpService(extractor, given));
}

interface Started {
  readonly app: FastifyInstance;
  readonly requests: Requests;
  readonly open: OpenBatcher;
  readonly texts: TextBatcher | undefined;
}

class HttpService implements Service {
  readonly #extractor: Extractor;
  readonly #setup: ServiceSetup;
  #url: string | null = null;
  #starting: Promise<Started> | undefined;
  #listening: Promise<string> | undefined;
  #closing: Promise<void> | undefined;
  #isClosed = false;

  constructor(extractor: Extractor, setup: ServiceSetup) {
    this.#extractor = extractor;
    this.#setup = setup;
  }

  get url(): string | null {
    return this.#url;
  }

  readonly handler = (request: IncomingMessage, response: ServerResponse): void => {
    this.#start().then(
      // The listener of the server, which takes turns.
      ({ app }) => app.server.emit('request', request, response),
      (error: unknown) => {
        const isOver = this.#closing !== undefined;
        if (!isOver) this.#setup.onError?.(error);
        const refusal = new HttpError('SHUTTING_DOWN', 'the service is shutting down');
        const reason = isOver ? refusal : error;
        response.writeHead(replyOf(reason).status, { 'content-type': 'application/json; charset=utf-8' });
        response.end(JSON.stringify(errorBody(reason)));
      },
    );
  };

  async ready(): Promise<void> {
    await this.#start();
  }

  async listen(given: Options<ListenOptions> = {}): Promise<string> {
    const { host, port } = readOptions(LISTEN_FIELDS, given, 'listen');
    if (this.#closing || this.#listening) throw alreadyUsed();
    this.#listening = this.#start().then(({ app }) => listenAt(app, host, port));
    this.#url = await this.#listening;
    return this.#url;
  }

  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #start(): Promise<Started> {
    if (this.#closing && (!this.#starting || this.#isClosed)) return Promise.reject(alreadyUsed());
    this.#starting ??= this.#open();
    return this.#starting;
  }

  async #open(): Promise<Started> {
    const setup = this.#setup;
    const gate = new Gate(setup, setup.token);
    const metrics = await createMetrics(setup.maxBatch, () => ({
      queued: batcher.queued,
      running: batcher.running,
      requests: gate.requests,
      queuedTexts: texts?.batcher.queued ?? 0,
    }));
    // Before the threads for images start: an error here leaves nothing to end.
    const texts = setup.textTower && (await openTextBatcher(setup.textTower, setup));
    const open = await openImageBatcher(this.#extractor, setup, (images, seconds) =>
      metrics.run(images, seconds),
    );
    const { batcher, sample } = open;
    const classes = await readClassScores(this.#extractor, setup.labels, sample).catch(
      async (error: unknown) => {
        await open.close();
        throw error;
      },
    );
    const requests = new Requests({
      gate,
      isClosed: () => this.#isClosed,
      isClosing: () => this.#closing !== undefined,
      isQueueFull: () => batcher.isFull,
      onDone: (route, status, seconds) => metrics.request(route, status, seconds),
      onError: setup.onError,
    });
    const app = await createServer(
      {
        extractor: this.#extractor,
        setup,
        batcher,
        sample,
        texts,
        classes,
        metrics,
        version: packageVersion(),
        isReady: () => this.#closing === undefined,
        stateOf: (request) => requests.stateOf(request),
      },
      requests,
    );
    return { app, requests, open, texts };
  }

  async #stop(): Promise<void> {
    // Let a start in progress finish; its error goes to the caller of ready() or listen().
    await this.#listening?.catch(() => undefined);
    const started = await this.#starting?.catch(() => undefined);
    if (!started) return;
    const { app, requests, open, texts } = started;
    open.batcher.hurry();
    texts?.batcher.hurry();
    const { shutdownTimeoutMs } = this.#setup;
    const late = setTimeout(() => {
      requests.abort(new HttpError('SHUTTING_DOWN', 'the service is shutting down'));
      setTimeout(() => app.server.closeAllConnections(), FAREWELL_MS).unref();
    }, shutdownTimeoutMs);
    await requests.acceptWaiting(Math.min(DRAIN_MS, shutdownTimeoutMs));
    stopListening(app);
    // Cutting idle connections at once would reset requests that are on their way.
    await requests.drain(Math.min(DRAIN_MS, shutdownTimeoutMs));
    this.#isClosed = true;
    requests.closeIdle();
    await Promise.all([app.close(), requests.settle()]);
    clearTimeout(late);
    this.#url = null;
    await Promise.all([open.batcher.drain(), texts?.batcher.drain()]);
    await open.close();
  }
}

function alreadyUsed(): TapirError<'CLOSED'> {
  return new TapirError('CLOSED', 'the service already listens or is closed; create another one', {
    details: { what: 'service' },
  });
}
