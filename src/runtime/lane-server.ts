/** The lane's side: one session that answers requests in order. Knows no threads; its entries give it a port. */
import { packError } from '../base/errors.js';
import { fillFeed, isShared, madeFeeds } from '../tensor/image-feed.js';
import { buffersOf, type NamedTensor } from '../tensor/tensor.js';
import type { LaneDescription, LaneReply, LaneRequest, SessionFacts } from './protocol.js';

/** An open session. */
export interface Session {
  readonly facts: SessionFacts;
  /** Runs the model; returns the fetched outputs in the order asked. */
  run(feeds: readonly NamedTensor[], fetches: readonly string[]): Promise<NamedTensor[]>;
  release(): Promise<void>;
}

/** What opens sessions, as a module that the lane loads. */
export interface Engine {
  /** Loads native code, once. */
  loadRuntime(): Promise<unknown>;
  openSession(description: LaneDescription): Promise<Session>;
}

/** How a lane talks to its owner, and how it enters onnxruntime. */
export interface LanePort {
  send(reply: LaneReply, transfer: ArrayBuffer[]): void;
  /** Runs a step inside onnxruntime; does not start it if the process is about to exit. */
  enter<Result>(step: () => Promise<Result>): Promise<Result>;
  /** Called after the session is released. */
  closed(): void;
}

/** Frees the bytes of the model, of which onnxruntime has a copy: an idle thread would keep them until its next collection. */
function discard({ buffer }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer)) return;
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.postMessage(null, [buffer]);
  port1.close();
}

/** Returns the handler of requests; they are worked off one after the other. */
export function serveLane(port: LanePort, loadEngine: () => Promise<Engine>): (request: LaneRequest) => void {
  let session: Session | undefined;
  /** Of the feed made last. */
  let spare: ArrayBuffer | undefined;
  const handle = async (request: LaneRequest): Promise<void> => {
    if (request.type === 'close') {
      if (session) await port.enter(() => session!.release());
      port.closed();
      return;
    }
    try {
      if (request.type === 'open') {
        const { description } = request;
        session = await port.enter(async () => (await loadEngine()).openSession(description));
        discard(description.model);
        port.send({ type: 'opened', facts: session.facts }, []);
      } else {
        const began = performance.now();
        const feeds = request.feeds.map((feed) => {
          if (!isShared(feed)) return feed;
          const made = fillFeed(feed, spare);
          [spare] = buffersOf([made]);
          return made;
        });
        const started = performance.now();
        const outputs = await port.enter(() => session!.run(feeds, request.fetches));
        const runMs = performance.now() - started;
        const feedMs = started - began;
        // onnxruntime-node gives each output a buffer of its own; several fetches never share one.
        const spent = buffersOf(madeFeeds(request.feeds));
        port.send({ type: 'done', id: request.id, outputs, spent, runMs, feedMs }, [
          ...buffersOf(outputs),
          ...spent,
        ]);
      }
    } catch (error) {
      const id = request.type === 'run' ? { id: request.id } : {};
      port.send({ type: 'failed', ...id, error: packError(error) }, []);
    }
  };
  // Loading takes as long as the owner needs to prepare the model. A failure shows again when the session is opened.
  let last: Promise<unknown> = port
    .enter(async () => (await loadEngine()).loadRuntime())
    .catch(() => undefined);
  return (request) => {
    last = last.then(() => handle(request));
  };
}
