/** The owner's end of a lane: one session in a thread or process, which handles requests in order. */
import { isTapirError, reasonOf, TapirError } from '../../../base/errors.js';
import { unpackError } from '../../../base/packed-error.js';
import { deviceName, type ResolvedDevice } from './device.js';
import { madeFeeds, type Feed } from '../../../onnx/tensor/image-feed.js';
import type { LaneOptions } from './lane-options.js';
import { startLane, type LaneChannel } from './lane-start.js';
import type { LaneDescription, LaneReply, SessionFacts } from './protocol.js';
import { buffersOf, mismatch, type NamedTensor } from '../../../onnx/tensor/tensor.js';

/** The result of a run. */
export interface LaneResult {
  /** In the order of the fetches, each in a separate buffer. */
  readonly outputs: readonly NamedTensor[];
  /** The buffers of the feeds, for reuse. */
  readonly spent: readonly ArrayBuffer[];
  /** Time in the engine. */
  readonly runMs: number;
  /** Time for making feeds from shared images. */
  readonly feedMs: number;
}

interface Waiting {
  resolve(result: LaneResult): void;
  reject(error: unknown): void;
}

/** One session on one device. Open it with {@link openLane}. */
export class Lane {
  readonly facts: SessionFacts;
  /** Resolves with the reason when the thread or process has ended, by `close` or by itself. */
  readonly gone: Promise<string>;
  readonly #channel: LaneChannel;
  readonly #waiting: Map<number, Waiting>;
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
    this.gone = gone.then((reason) => {
      this.#death = reason;
      for (const run of waiting.values()) run.reject(this.#died(reason));
      waiting.clear();
      return reason;
    });
  }

  /** Whether the thread or process has ended. */
  get isGone(): boolean {
    return this.#death !== undefined;
  }

  /** Id of the process that holds the session. For a thread it is this process. */
  get pid(): number {
    return this.#channel.pid;
  }

  /** How many runs keep the session busy. */
  get streams(): number {
    return this.facts.streams ?? 1;
  }

  /**
   * Runs the session. The buffers of the feeds are moved to the lane, except shared ones.
   *
   * @param room - Buffers that outputs may be written to. They are moved to the lane, except those moved before.
   * @param onPosted - Receives a function that ends the run early if the engine can. The promise settles when the run has ended.
   */
  run(
    feeds: readonly Feed[],
    fetches: readonly string[],
    room: readonly ArrayBuffer[] = [],
    onPosted?: (cancel: () => void) => void,
  ): Promise<LaneResult> {
    if (this.#death !== undefined) return Promise.reject(this.#died(this.#death));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        if (this.#waiting.size === 0 && !this.#closing) this.#channel.hold(false);
      };
      this.#waiting.set(id, {
        resolve(result) {
          settle();
          resolve(result);
        },
        reject(error) {
          settle();
          reject(error as Error);
        },
      });
      this.#channel.hold(true);
      try {
        const given = room.filter(({ byteLength }) => byteLength > 0);
        const moved = [...buffersOf(madeFeeds(feeds)), ...given];
        this.#channel.post({ type: 'run', id, feeds, fetches, room: given }, moved);
        onPosted?.(() => this.#cancel(id));
      } catch (error) {
        // Some buffers cannot be moved, for example the memory of a WebAssembly instance.
        this.#waiting.delete(id);
        settle();
        const names = feeds.map(({ name }) => name).join(', ');
        reject(mismatch(names, 'in buffers that can be moved (leave out "transfer")', reasonOf(error)));
      }
    });
  }

  #cancel(id: number): void {
    if (this.#waiting.has(id)) this.#channel.post({ type: 'cancel', id }, []);
  }

  /** Waits for runs in progress, releases the session and ends the thread or process. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#death === undefined) {
      this.#channel.hold(true);
      this.#channel.post({ type: 'close' }, []);
    }
    await this.gone;
  }

  #died(reason: string): TapirError {
    const device = deviceName(this.facts.device);
    return new TapirError('LANE_DIED', `the session on ${device} ended unexpectedly: ${reason}`, {
      details: { device, reason },
    });
  }
}

/** Where a lane runs. */
export interface LanePlace {
  readonly device: ResolvedDevice;
  readonly lane: LaneOptions;
}

/**
 * Opens a session in a new lane.
 *
 * @param place - The device, and the options of the lane.
 * @param describe - Prepares what the lane needs, while its thread starts. The model's bytes are moved there. If a prepared model
 * cannot be opened, `describe` is called again with the failure, for another one.
 * @param start - Starts the thread or process; tests pass a simulated one.
 * @throws {@link TapirError} what {@link Engine.openSession} throws; `LANE_DIED` if the lane ends while opening; what `describe` throws.
 */
export async function openLane(
  place: LanePlace,
  describe: (failure?: unknown) => Promise<LaneDescription>,
  start: typeof startLane = startLane,
  failure?: unknown,
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
    if (reply.type === 'done') run?.resolve(reply);
    else run?.reject(unpackError(reply.error));
  };
  const channel = start({ reply: onReply, gone: (reason) => gone.resolve(reason) }, place.device, place.lane);
  // It is awaited below, but the lane may die before that.
  opened.promise.catch(() => undefined);
  void gone.promise.then((reason) => {
    const details = { device: deviceName(place.device), reason };
    const message = `the session on ${details.device} ended while opening: ${reason}`;
    opened.reject(new TapirError('LANE_DIED', message, { details }));
  });
  let isPrepared = false;
  try {
    const description = await describe(failure);
    isPrepared = description.isPrepared === true;
    const { buffer } = description.model;
    channel.post({ type: 'open', description }, buffer instanceof ArrayBuffer ? [buffer] : []);
    const facts = await opened.promise;
    channel.hold(false);
    return new Lane(facts, channel, waiting, gone.promise);
  } catch (error) {
    channel.post({ type: 'close' }, []);
    await gone.promise;
    if (isPrepared && isTapirError(error, 'SESSION_FAILED')) return openLane(place, describe, start, error);
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
