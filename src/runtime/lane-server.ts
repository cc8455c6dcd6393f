/**
 * The inner end of a lane: one session that answers requests in order. It knows neither threads nor processes; their entry files give
 * it a port.
 */
import { packError } from '../base/errors.js';
import { fillFeed, isShared, madeFeeds } from '../tensor/image-feed.js';
import { buffersOf } from '../tensor/tensor.js';
import type { Engine, Session } from './engine.js';
import type { LaneReply, LaneRequest } from './protocol.js';

type RunRequest = Extract<LaneRequest, { type: 'run' }>;
type OpenRequest = Extract<LaneRequest, { type: 'open' }>;

/** How a lane talks to its owner, and how it calls native code. */
export interface LanePort {
  send(reply: LaneReply, transfer: ArrayBuffer[]): void;
  /** Runs a step in native code. If the process is about to exit, the step is not started, and the promise never settles. */
  enter<Result>(step: () => Promise<Result>): Promise<Result>;
  /** Called after the session is released. */
  closed(): void;
}

/** Returns the handler of requests. It handles one request after the other. */
export function serveLane(port: LanePort, loadEngine: () => Promise<Engine>): (request: LaneRequest) => void {
  const server = new LaneServer(port, loadEngine);
  // Loading the engine takes about as long as the owner needs to prepare the model. Opening the session repeats a failure.
  let last: Promise<unknown> = server.load().catch(() => undefined);
  return (request) => {
    last = last.then(() => server.handle(request));
  };
}

class LaneServer {
  readonly #port: LanePort;
  readonly #loadEngine: () => Promise<Engine>;
  #session: Session | undefined;
  /** Buffer of the latest feed that was made here, for the next one. */
  #spare: ArrayBuffer | undefined;

  constructor(port: LanePort, loadEngine: () => Promise<Engine>) {
    this.#port = port;
    this.#loadEngine = loadEngine;
  }

  load(): Promise<unknown> {
    return this.#port.enter(async () => (await this.#loadEngine()).loadRuntime());
  }

  async handle(request: LaneRequest): Promise<void> {
    if (request.type === 'close') {
      if (this.#session) await this.#port.enter(() => this.#session!.release());
      this.#port.closed();
      return;
    }
    try {
      if (request.type === 'open') await this.#open(request);
      else await this.#run(request);
    } catch (error) {
      const id = request.type === 'run' ? { id: request.id } : {};
      this.#port.send({ type: 'failed', ...id, error: packError(error) }, []);
    }
  }

  async #open({ description }: OpenRequest): Promise<void> {
    this.#session = await this.#port.enter(async () => (await this.#loadEngine()).openSession(description));
    discard(description.model);
    this.#port.send({ type: 'opened', facts: this.#session.facts }, []);
  }

  async #run({ id, feeds: given, fetches }: RunRequest): Promise<void> {
    const began = performance.now();
    const feeds = given.map((feed) => {
      if (!isShared(feed)) return feed;
      const made = fillFeed(feed, this.#spare);
      [this.#spare] = buffersOf([made]);
      return made;
    });
    const started = performance.now();
    const outputs = await this.#port.enter(() => this.#session!.run(feeds, fetches));
    const runMs = performance.now() - started;
    const feedMs = started - began;
    const spent = buffersOf(madeFeeds(given));
    this.#port.send({ type: 'done', id, outputs, spent, runMs, feedMs }, [...buffersOf(outputs), ...spent]);
  }
}

/** Frees the bytes of the model, which the engine has copied: an idle thread would keep them until its next garbage collection. */
function discard({ buffer }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer)) return;
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.postMessage(null, [buffer]);
  port1.close();
}
