/**
 * A model on one device: a queue of runs in front of one or several sessions. Feeds are copied only when a session is about to take
 * them, one run ahead of the one that it computes. So copying and computing overlap, and memory stays bounded.
 */
import { TapirError } from '../../base/errors.js';
import { isShared, type Feed } from '../../onnx/tensor/image-feed.js';
import { takeBuffer, type NamedTensor } from '../../onnx/tensor/tensor.js';
import { checkPresent, cutFeed, type FeedPart } from '../../onnx/tensor/tensor-part.js';
import { deviceName, type ResolvedDevice } from './lanes/device.js';
import { CAPABILITIES, checkPrecision } from './capabilities/capabilities.js';
import { openLane, type Lane, type LanePlace } from './lanes/lane.js';
import { LanePool, type LaneDeathPolicy, type Slot } from './lane-pool.js';
import type { startLane } from './lanes/lane-start.js';
import { onAbort } from './on-abort.js';
import { openAll } from './open-all.js';
import type { LaneDescription, SessionFacts } from './lanes/protocol.js';
import { WarmSizes } from './warm-sizes.js';

/** Options of one run. */
export interface ReplicaRunOptions {
  /** Rejects the run at once when it fires. The run itself ends soon if the engine can cancel; else the session stays busy until it returns. */
  readonly signal?: AbortSignal | undefined;
  /** Move the feeds' buffers to the session instead of copying them. */
  readonly transfer?: boolean | undefined;
  /** Buffers of earlier outputs, to be moved to the session, which may write to them. */
  readonly room?: readonly ArrayBuffer[] | undefined;
}

/** Where and how a replica runs. */
export interface ReplicaPlace extends LanePlace {
  /** Sessions on the device. With several, copies to the device overlap with computing. */
  readonly sessions: number;
  readonly onLaneDeath: LaneDeathPolicy;
}

/** Milliseconds that a replica has spent. */
export interface ReplicaSpent {
  /** In the engine, added up over all sessions. */
  readonly runMs: number;
  /** Making feeds from shared images. */
  readonly feedMs: number;
}

/** What a replica has done. */
export interface ReplicaCounts {
  /** Runs that succeeded. */
  readonly runs: number;
  readonly failures: number;
  /** Sessions that were opened again. */
  readonly restarts: number;
}

/** What runs a model: a device, or a pipeline of devices. */
export interface Runner {
  readonly facts: SessionFacts;
  /** The device in use, or the devices in a row, as messages name them. */
  readonly device: string;
  /** The device of each session. As many runs overlap. */
  readonly devices: readonly ResolvedDevice[];
  readonly onLaneDeath: LaneDeathPolicy;
  /** The batch size that is fast because it ran before; undefined where all sizes are. */
  readonly warmSizes: WarmSizes | undefined;
  /** Whether it is no longer used, because its sessions have died. */
  readonly isRemoved: boolean;
  /** Runs that wait or are at work. */
  readonly load: number;
  readonly counts: ReplicaCounts;
  /** Time spent so far. */
  readonly spent: ReplicaSpent;
  /** Ids of the processes that hold the sessions. */
  readonly pids: readonly number[];
  /** Milliseconds in the engine per row, one number for each of the latest runs. */
  readonly recentRowMs: readonly number[];
  /** Runs the model. Outputs come in the order of `fetches`, in buffers that the caller owns. */
  run(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    options?: ReplicaRunOptions,
  ): Promise<readonly NamedTensor[]>;
  /** Waits for the runs in progress and in the queue, then closes the sessions. Idempotent. */
  close(): Promise<void>;
}

interface Job {
  readonly parts: readonly FeedPart[];
  readonly fetches: readonly string[];
  readonly transfer: boolean;
  readonly room: readonly ArrayBuffer[];
  /** Ends the run in the lane; undefined before the lane has it. */
  cancel: (() => void) | undefined;
  isSettled: boolean;
  resolve(outputs: readonly NamedTensor[]): void;
  reject(error: unknown): void;
}

/** How many of the latest runs `recentRowMs` covers. */
const RECENT_RUNS = 16;

/** A model on one device. Open it with {@link openReplica}. */
export class Replica implements Runner {
  readonly facts: SessionFacts;
  readonly device: string;
  readonly onLaneDeath: LaneDeathPolicy;
  readonly warmSizes: WarmSizes | undefined;
  readonly #pool: LanePool;
  readonly #queue: Job[] = [];
  readonly #spare: ArrayBuffer[] = [];
  #counts = { runs: 0, failures: 0 };
  #spent = { runMs: 0, feedMs: 0 };
  #rowMs: number[] = [];
  #closing: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

  constructor(lanes: readonly Lane[], open: () => Promise<Lane>, policy: LaneDeathPolicy) {
    this.facts = lanes[0]!.facts;
    this.device = deviceName(this.facts.device);
    this.onLaneDeath = policy;
    this.warmSizes = this.facts.device.type === 'cpu' ? undefined : new WarmSizes();
    this.#pool = new LanePool(lanes, {
      device: this.device,
      policy,
      open,
      changed: () => this.#pump(),
      failed: (error) => this.#rejectWaiting(error),
    });
  }

  get isRemoved(): boolean {
    return this.#pool.end !== undefined;
  }

  get load(): number {
    return this.#queue.length + this.#pool.load;
  }

  get devices(): readonly ResolvedDevice[] {
    return Array.from({ length: this.#pool.size }, () => this.facts.device);
  }

  get counts(): ReplicaCounts {
    return { ...this.#counts, restarts: this.#pool.restarts };
  }

  get spent(): ReplicaSpent {
    return { ...this.#spent };
  }

  get pids(): readonly number[] {
    return this.#pool.pids;
  }

  get recentRowMs(): readonly number[] {
    return this.#rowMs;
  }

  run(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    { signal, transfer = false, room = [] }: ReplicaRunOptions = {},
  ): Promise<readonly NamedTensor[]> {
    if (this.#closing)
      return Promise.reject(
        new TapirError('CLOSED', 'this session is closed', { details: { what: 'session' } }),
      );
    if (this.#pool.end) return Promise.reject(this.#pool.end);
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const settle = (): boolean => {
        const isFirst = !job.isSettled;
        job.isSettled = true;
        takeBack?.();
        return isFirst;
      };
      const job: Job = {
        parts,
        fetches,
        transfer,
        room,
        cancel: undefined,
        isSettled: false,
        resolve: (outputs) => void (settle() && resolve(outputs)),
        reject: (error) => void (settle() && reject(error as Error)),
      };
      const takeBack =
        signal &&
        onAbort(signal, () => {
          const at = this.#queue.indexOf(job);
          if (at >= 0) this.#queue.splice(at, 1);
          job.reject(signal!.reason);
          job.cancel?.();
          this.#checkIdle();
        });
      this.#queue.push(job);
      this.#pump();
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (!this.#isIdle) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    await this.#pool.close();
    this.#spare.length = 0;
  }

  get #isIdle(): boolean {
    return this.load === 0 && !this.#pool.isOpening;
  }

  #checkIdle(): void {
    if (this.#queue.length === 0) this.#pool.rest();
    if (this.#isIdle) this.#onIdle?.();
  }

  /** Gives waiting runs to sessions with room, and opens dead sessions again if runs are left. */
  #pump(): void {
    if (this.#pool.end) this.#rejectWaiting(this.#pool.end);
    while (this.#queue.length > 0) {
      const slot = this.#pool.next();
      if (!slot) break;
      const job = this.#queue.shift()!;
      if (!job.isSettled) void this.#dispatch(slot, slot.lane!, job);
    }
    if (this.#queue.length > 0) this.#pool.reopen();
    this.#checkIdle();
  }

  #rejectWaiting(error: unknown): void {
    for (const job of this.#queue.splice(0)) job.reject(error);
  }

  async #dispatch(slot: Slot, lane: Lane, job: Job): Promise<void> {
    slot.load++;
    try {
      const feeds: Feed[] = [];
      for (const part of job.parts)
        feeds.push(await cutFeed(part, job.transfer, (bytes) => takeBuffer(this.#spare, bytes)));
      if (job.isSettled) return;
      // Another run may have moved the same buffer just now; a message with a moved buffer would never arrive.
      for (const feed of feeds) if (!isShared(feed)) checkPresent(feed.name, feed);
      if (lane.isGone) {
        // The lane died before it received this run.
        this.#queue.unshift(job);
        return;
      }
      const { outputs, spent, runMs, feedMs } = await lane.run(feeds, job.fetches, job.room, (cancel) => {
        job.cancel = cancel;
      });
      this.#keepSpare(spent);
      this.#counts.runs++;
      this.#spent.runMs += runMs;
      this.#spent.feedMs += feedMs;
      const rows = Math.max(1, job.parts[0]?.size ?? 1);
      this.#rowMs = [...this.#rowMs.slice(1 - RECENT_RUNS), runMs / rows];
      job.resolve(outputs);
    } catch (error) {
      // A run that was cancelled has not failed.
      if (!job.isSettled) this.#counts.failures++;
      job.reject(error);
    } finally {
      slot.load--;
      this.#pump();
    }
  }

  /** Keeps as many buffers as sessions can use at once, and drops the oldest. */
  #keepSpare(buffers: readonly ArrayBuffer[]): void {
    this.#spare.push(...buffers);
    const most = buffers.length * this.#pool.size;
    if (this.#spare.length > most) this.#spare.splice(0, this.#spare.length - most);
  }
}

/**
 * Opens a model on a device.
 *
 * @param place - The device, the number of its sessions, and what happens when one dies.
 * @param describe - Prepares what a session needs. It is called for each session, and again when a dead one is reopened.
 * @param start - Starts a thread or process; tests pass a simulated one.
 * @throws {@link TapirError} those of {@link openLane}.
 */
export async function openReplica(
  place: ReplicaPlace,
  describe: (failure?: unknown) => Promise<LaneDescription>,
  start?: typeof startLane,
): Promise<Replica> {
  const { device, lane, sessions } = place;
  checkPrecision(lane.precision, lane.engine, { type: device.type, name: deviceName(device) });
  let streams = CAPABILITIES[lane.engine].streamsOn.includes(device.type) ? sessions : 1;
  const describeStreams = async (failure?: unknown): Promise<LaneDescription> => ({
    ...(await describe(failure)),
    streams,
  });
  const open = (): Promise<Lane> => openLane(place, describeStreams, start);
  const openMany = (count: number): Promise<Lane[]> =>
    openAll(Array.from({ length: count }, open), (one) => one.close());
  if (streams === 1) return new Replica(await openMany(sessions), open, place.onLaneDeath);
  const first = await open();
  if (first.streams === sessions) return new Replica([first], open, place.onLaneDeath);
  // It turned out that this lane takes one run at a time.
  streams = 1;
  try {
    return new Replica([first, ...(await openMany(sessions - 1))], open, place.onLaneDeath);
  } catch (error) {
    await first.close();
    throw error;
  }
}
