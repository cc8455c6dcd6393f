/** A device lane as its owner sees it: one session, behind a thread or process, that runs requests in order. */
import { TapirError, unpackError } from '../errors.js';
import { deviceName, type ResolvedDevice } from './device.js';
import { startLane, type LaneChannel } from './lane-start.js';
import type { LaneDescription, LaneReply, NamedTensor, SessionFacts } from './protocol.js';
import { detachable } from './tensor.js';

/** Options of one run. */
export interface LaneRunOptions {
  /** Rejects at once when it fires; the lane stays busy until the run returns (onnxruntime-node cannot cancel). */
  readonly signal?: AbortSignal | undefined;
  /** Give up the feeds' buffers instead of copying them. */
  readonly transfer?: boolean | undefined;
}

interface Waiting {
  resolve(outputs: readonly NamedTensor[]): void;
  reject(error: unknown): void;
}

/** One session on one device. Open it with {@link openLane}. */
export class Lane {
  readonly facts: SessionFacts;
  readonly #channel: LaneChannel;
  readonly #waiting: Map<number, Waiting>;
  readonly #gone: Promise<string>;
  #nextId = 0;
  #closing: Promise<void> | undefined;
  #death: string | undefined;

  constructor(
    facts: SessionFacts,
    channel: LaneChannel,
    waiting: Map<number, Waiting>,
    gone: Promise<string>,
  ) {
    this.facts = facts;
    this.#channel = channel;
    this.#waiting = waiting;
    this.#gone = gone.then((reason) => {
      this.#death = reason;
      for (const run of waiting.values()) run.reject(this.#died(reason));
      waiting.clear();
      return reason;
    });
  }

  /** Runs the session; outputs come in the order of `fetches`, in buffers that the caller owns. */
  run(
    feeds: readonly NamedTensor[],
    fetches: readonly string[],
    options: LaneRunOptions = {},
  ): Promise<readonly NamedTensor[]> {
    const { signal } = options;
    if (this.#closing)
      return Promise.reject(
        new TapirError('CLOSED', 'this session is closed', { details: { what: 'session' } }),
      );
    if (this.#death !== undefined) return Promise.reject(this.#died(this.#death));
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    const id = this.#nextId++;
    const detached = feeds.map((feed) => ({
      ...feed,
      data: detachable(feed.data, options.transfer === true),
    }));
    const buffers = new Set(
      detached.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer])),
    );
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(signal!.reason as Error);
      signal?.addEventListener('abort', onAbort, { once: true });
      const settle = (): void => {
        signal?.removeEventListener('abort', onAbort);
        if (this.#waiting.size === 0 && !this.#closing) this.#channel.hold(false);
      };
      this.#waiting.set(id, {
        resolve(outputs) {
          settle();
          resolve(outputs);
        },
        reject(error) {
          settle();
          reject(error as Error);
        },
      });
      this.#channel.hold(true);
      this.#channel.post({ type: 'run', id, feeds: detached, fetches }, [...buffers]);
    });
  }

  /** Waits for runs in flight, releases the session and ends the thread. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#death === undefined) {
      this.#channel.hold(true);
      this.#channel.post({ type: 'close' }, []);
    }
    await this.#gone;
  }

  #died(reason: string): TapirError {
    const device = deviceName(this.facts.device);
    return new TapirError('LANE_DIED', `the session on ${device} ended unexpectedly: ${reason}`, {
      details: { device, reason },
    });
  }
}

/**
 * Opens a session in a lane of its own.
 *
 * @param device - For messages.
 * @param describe - Prepares what the lane needs while its thread starts; the model's bytes are moved there.
 * @param start - Starts the thread or process; tests give one of their own.
 * @throws {@link TapirError} what {@link openSession} throws; `LANE_DIED` if the lane ends while opening; what `describe` throws.
 */
export async function openLane(
  device: ResolvedDevice,
  describe: () => Promise<LaneDescription>,
  start: typeof startLane = startLane,
): Promise<Lane> {
  const waiting = new Map<number, Waiting>();
  const opened = deferred<SessionFacts>();
  const gone = deferred<string>();
  const onReply = (reply: LaneReply): void => {
    if (reply.type === 'opened') {
      opened.resolve(reply.facts);
      return;
    }
    if (reply.type === 'failed' && reply.id === undefined) {
      opened.reject(unpackError(reply.error));
      return;
    }
    const run = waiting.get(reply.id!);
    waiting.delete(reply.id!);
    if (reply.type === 'done') run?.resolve(reply.outputs);
    else run?.reject(unpackError(reply.error));
  };
  const channel = start({ reply: onReply, gone: (reason) => gone.resolve(reason) });
  // Awaited below; the lane may die before that.
  opened.promise.catch(() => undefined);
  void gone.promise.then((reason) => {
    const details = { device: deviceName(device), reason };
    const message = `the session on ${details.device} ended while opening: ${reason}`;
    opened.reject(new TapirError('LANE_DIED', message, { details }));
  });
  try {
    const description = await describe();
    const { buffer } = description.model;
    channel.post({ type: 'open', description }, buffer instanceof ArrayBuffer ? [buffer] : []);
    const facts = await opened.promise;
    channel.hold(false);
    return new Lane(facts, channel, waiting, gone.promise);
  } catch (error) {
    channel.post({ type: 'close' }, []);
    await gone.promise;
    throw error;
  }
}

interface Deferred<Value> {
  readonly promise: Promise<Value>;
  resolve(value: Value): void;
  reject(error: unknown): void;
}

function deferred<Value>(): Deferred<Value> {
  let resolve!: (value: Value) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<Value>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}
