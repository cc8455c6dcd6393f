/**
 * The inner end of a lane: one session that answers requests in order. It knows neither threads nor processes; their entry files give
 * it a port.
 */
import { packError } from '../../../base/packed-error.js';
import { fillFeed, isShared, madeFeeds } from '../../../onnx/tensor/image-feed.js';
import { buffersOf, takeBuffer, type NamedTensor } from '../../../onnx/tensor/tensor.js';
import type { Engine, Session } from './engine.js';
import type { LaneReply, LaneRequest } from './protocol.js';

type RunRequest = Extract<LaneRequest, { type: 'run' }>;
type OpenRequest = Extract<LaneRequest, { type: 'open' }>;
type OrderedRequest = Exclude<LaneRequest, { type: 'cancel' }>;

/** Feeds of a run, made from images where necessary. */
interface MadeFeeds {
  readonly feeds: readonly NamedTensor[];
  /** Buffers that were made here, for later feeds. */
  readonly made: readonly ArrayBuffer[];
  readonly feedMs: number;
}

/** How a lane talks to its owner, and how it calls native code. */
export interface LanePort {
  send(reply: LaneReply, transfer: ArrayBuffer[]): void;
  /** Runs a step in native code. If the process is about to exit, the step is not started, and the promise never settles. */
  enter<Result>(step: () => Promise<Result>): Promise<Result>;
  /** Called after the session is released. */
  closed(): void;
}

/** Returns the handler of requests. */
export function serveLane(port: LanePort, loadEngine: () => Promise<Engine>): (request: LaneRequest) => void {
  const server = new LaneServer(port, loadEngine);
  return (request) => server.receive(request);
}

class LaneServer {
  readonly #port: LanePort;
  readonly #loadEngine: () => Promise<Engine>;
  readonly #queue: OrderedRequest[] = [];
  /** Runs that wait or are at work, by id. */
  readonly #cancels = new Map<number, AbortController>();
  /** Buffers of earlier feeds that were made here, for the next ones. */
  readonly #spare: ArrayBuffer[] = [];
  /** Feeds of runs that wait: they are made while the engine computes the runs before them. */
  readonly #ahead = new Map<number, MadeFeeds>();
  /** Requests at work: the loading of the engine counts as one. */
  #active = 1;
  #session: Session | undefined;
  #finishing: Promise<void> | undefined;

  constructor(port: LanePort, loadEngine: () => Promise<Engine>) {
    this.#port = port;
    this.#loadEngine = loadEngine;
    // Loading the engine takes about as long as the owner needs to prepare the model. Opening the session repeats a failure.
    void port
      .enter(async () => (await loadEngine()).loadRuntime())
      .catch(() => undefined)
      .then(() => this.#end());
  }

  receive(request: LaneRequest): void {
    if (request.type === 'cancel') {
      for (const [id, cancel] of this.#cancels) if (id === (request.id ?? id)) cancel.abort();
      return;
    }
    if (request.type === 'run') this.#cancels.set(request.id, new AbortController());
    this.#queue.push(request);
    this.#pump();
  }

  /** Starts requests in order: runs beside each other as far as the session can, others alone. */
  #pump(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const most = next.type === 'run' ? (this.#session?.facts.streams ?? 1) : 1;
      if (this.#active >= most) {
        this.#prepare(most);
        return;
      }
      this.#queue.shift();
      this.#active++;
      void this.#handle(next).then(() => this.#end());
    }
  }

  /** Makes the feeds of the next runs, one for each stream, if the engine leaves this thread free while it computes. */
  #prepare(streams: number): void {
    if (this.#session?.facts.streams === undefined) return;
    for (const request of this.#queue.slice(0, streams))
      if (request.type === 'run' && !this.#ahead.has(request.id))
        this.#ahead.set(request.id, this.#makeFeeds(request));
  }

  #makeFeeds({ feeds: given }: RunRequest): MadeFeeds {
    const began = performance.now();
    const made: ArrayBuffer[] = [];
    const feeds = given.map((feed) => {
      if (!isShared(feed)) return feed;
      const filled = fillFeed(feed, this.#spare.pop());
      made.push(...buffersOf([filled]));
      return filled;
    });
    return { feeds, made, feedMs: performance.now() - began };
  }

  #end(): void {
    this.#active--;
    this.#pump();
  }

  async #handle(request: OrderedRequest): Promise<void> {
    if (request.type === 'close') return this.#close();
    try {
      if (request.type === 'open') await this.#open(request);
      else await this.#run(request);
    } catch (error) {
      const id = request.type === 'run' ? { id: request.id } : {};
      this.#port.send({ type: 'failed', ...id, error: packError(error) }, []);
    }
  }

  async #close(): Promise<void> {
    await this.#finishing;
    if (this.#session) await this.#port.enter(() => this.#session!.release());
    this.#port.closed();
  }

  async #open({ description }: OpenRequest): Promise<void> {
    const session = await this.#port.enter(async () => (await this.#loadEngine()).openSession(description));
    this.#session = session;
    for (const model of [description.model, ...(description.further ?? [])]) discard(model);
    this.#port.send({ type: 'opened', facts: session.facts }, []);
    if (session.finish) this.#finishing = this.#port.enter(() => session.finish!());
  }

  async #run(request: RunRequest): Promise<void> {
    const { id, fetches } = request;
    const room = [...request.room];
    const { signal } = this.#cancels.get(id)!;
    const { feeds, made, feedMs } = this.#ahead.get(id) ?? this.#makeFeeds(request);
    this.#ahead.delete(id);
    const started = performance.now();
    let outputs: readonly NamedTensor[];
    try {
      // A run may be cancelled before its turn.
      signal.throwIfAborted();
      outputs = await this.#port.enter(() =>
        this.#session!.run(feeds, fetches, signal, (bytes) => takeBuffer(room, bytes)),
      );
    } finally {
      this.#cancels.delete(id);
      this.#spare.push(...made);
    }
    const runMs = performance.now() - started;
    const spent = buffersOf(madeFeeds(request.feeds));
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
