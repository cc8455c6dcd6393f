/** An extractor as an HTTP service: its life. */
import type { FastifyInstance } from 'fastify';
import { checkInteger, checkText, withDefaults, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { packageVersion } from '../../base/package.js';
import type { Extractor } from '../../extract/extractor.js';
import { Gate } from './gate.js';
import { HttpError } from './http-error.js';
import { openImageBatcher, type OpenBatcher } from './image-batcher.js';
import { createMetrics } from './metrics.js';
import { Requests } from './requests.js';
import { createServer, listenAt } from './server.js';
import { setUpService, type ServiceOptions, type ServiceSetup } from './service-options.js';

/** Where a service listens. */
export interface ListenOptions {
  /**
   * Name or address to bind to; `'0.0.0.0'` or `'::'` for all.
   * @default '127.0.0.1'
   */
  readonly host: string;
  /**
   * Port, an integer from 0 to 65535; 0 takes a free one.
   * @default 8000
   */
  readonly port: number;
}

export const LISTEN_DEFAULTS: ListenOptions = { host: '127.0.0.1', port: 8000 };

/** An HTTP service. Made by {@link createService}. */
export interface Service {
  /** Where it listens, such as `http://127.0.0.1:8000`; null before and after. */
  readonly url: string | null;
  /**
   * Starts, once: runs one image to warm up, then listens.
   *
   * @returns The URL.
   * @throws {@link TapirError} `ADDRESS_UNAVAILABLE`; `OPTION_INVALID`; `OUTPUT_NOT_BATCHED`; `CLOSED`; those of a run.
   */
  listen(given?: Options<ListenOptions>): Promise<string>;
  /**
   * Takes no more requests, answers those that it has within `shutdownTimeoutMs`, gives up the rest with status 503, and ends
   * its threads. Idempotent. The extractor stays open.
   */
  close(): Promise<void>;
  /** Same as {@link Service.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** So long do clients have to read that they are given up. */
const FAREWELL_MS = 1000;

/**
 * Serves an extractor by HTTP: `POST /embed` for images, and the Open Inference Protocol (KServe, Triton) under `/v2`.
 * Images of all requests are gathered into batches.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open, and yours to close.
 * @param given - See {@link ServiceOptions}.
 * @returns The service, not yet listening; close it after use.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, createService } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * const service = createService(extractor, { name: 'resnet50', token: 'secret' });
 * console.log(await service.listen({ port: 8000 })); // http://127.0.0.1:8000
 * process.once('SIGTERM', async () => {
 *   await service.close();
 *   await extractor.close();
 * });
 * ```
 */
export function createService(extractor: Extractor, given: Options<ServiceOptions> = {}): Service {
  return new HttpService(extractor, setUpService(extractor, given));
}

class HttpService implements Service {
  readonly #extractor: Extractor;
  readonly #setup: ServiceSetup;
  #url: string | null = null;
  #app: FastifyInstance | undefined;
  #open: OpenBatcher | undefined;
  #requests: Requests | undefined;
  #listening: Promise<string> | undefined;
  #closing: Promise<void> | undefined;

  constructor(extractor: Extractor, setup: ServiceSetup) {
    this.#extractor = extractor;
    this.#setup = setup;
  }

  get url(): string | null {
    return this.#url;
  }

  async listen(given: Options<ListenOptions> = {}): Promise<string> {
    const { host, port } = withDefaults(LISTEN_DEFAULTS, given, 'listen');
    checkText('host', host);
    checkInteger('port', port, 0, 65_535);
    if (this.#closing || this.#listening)
      throw new TapirError('CLOSED', 'the service has been started or closed before; create another one', {
        details: { what: 'service' },
      });
    this.#listening = this.#start(host, port);
    return this.#listening;
  }

  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #start(host: string, port: number): Promise<string> {
    const setup = this.#setup;
    const gate = new Gate(setup, setup.token);
    const isClosing = (): boolean => this.#closing !== undefined;
    const metrics = await createMetrics(setup.maxBatch, () => ({
      queued: batcher.queued,
      running: batcher.running,
      requests: gate.requests,
    }));
    const open = await openImageBatcher(this.#extractor, setup, (images, seconds) =>
      metrics.run(images, seconds),
    );
    this.#open = open;
    const { batcher, sample } = open;
    const requests = new Requests({
      setup,
      gate,
      isClosing,
      isQueueFull: () => batcher.isFull,
      onDone: (route, status, seconds) => metrics.request(route, status, seconds),
    });
    this.#requests = requests;
    this.#app = await createServer(
      {
        extractor: this.#extractor,
        setup,
        batcher,
        sample,
        gate,
        metrics,
        version: packageVersion(),
        isReady: () => !isClosing(),
        stateOf: (request) => requests.stateOf(request),
      },
      requests,
    );
    this.#url = await listenAt(this.#app, host, port);
    return this.#url;
  }

  async #stop(): Promise<void> {
    // One that is starting is let finish; what it fails with is told to whoever started it.
    await this.#listening?.catch(() => undefined);
    const app = this.#app;
    this.#open?.batcher.hurry();
    if (app) {
      const late = setTimeout(() => {
        this.#requests!.abort(new HttpError('SHUTTING_DOWN', 'the service is shutting down'));
        setTimeout(() => app.server.closeAllConnections(), FAREWELL_MS).unref();
      }, this.#setup.shutdownTimeoutMs);
      this.#requests!.closeIdle();
      await app.close();
      clearTimeout(late);
    }
    this.#url = null;
    await this.#open?.batcher.drain();
    await this.#open?.lanes.close();
  }
}
