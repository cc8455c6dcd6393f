/**
 * A model on one device: a queue of runs before one session or several. Feeds are cut out when a session is about to take
 * them, one run ahead of the one at work, so that copying and computing overlap and memory stays bounded.
 */
import { TapirError } from '../base/errors.js';
import { deviceName } from './device.js';
import { openLane, type Lane, type LanePlace } from './lane.js';
import type { startLane } from './lane-start.js';
import { isShared, type Feed } from '../tensor/image-feed.js';
import type { LaneDescription, SessionFacts } from './protocol.js';
import type { NamedTensor } from '../tensor/tensor.js';
import { checkPresent, cutFeed, type FeedPart } from '../tensor/tensor-part.js';
import { WarmSizes } from './warm-sizes.js';

/** Options of one run. */
export interface ReplicaRunOptions {
  /** Rejects at once when it fires; the session stays busy until the run returns (onnxruntime-node cannot cancel). */
  readonly signal?: AbortSignal | undefined;
  /** Give up the feeds' buffers instead of copying them. */
  readonly transfer?: boolean | undefined;
}

/** What becomes of a device whose thread or process has ended: opened again for the next run, or not used any more. */
export type LaneDeathPolicy = 'restart' | 'remove';

/** Where and how a replica runs. */
export interface ReplicaPlace extends LanePlace {
  /** Sessions on the device, so that copies to it and computing overlap. */
  readonly sessions: number;
  readonly onLaneDeath: LaneDeathPolicy;
}

/** Milliseconds that a replica has spent. */
export interface ReplicaSpent {
  /** Inside onnxruntime, of all sessions together. */
  readonly runMs: number;
  /** Making feeds of shared images. */
  readonly feedMs: number;
}

/** What a replica has done. */
export interface ReplicaCounts {
  readonly runs: number;
  readonly failures: number;
  readonly restarts: number;
}

interface Job {
  readonly parts: readonly FeedPart[];
  readonly fetches: readonly string[];
  readonly transfer: boolean;
  isSettled: boolean;
  resolve(outputs: readonly NamedTensor[]): void;
  reject(error: unknown): void;
}

interface Slot {
  lane: Lane | undefined;
  /** Runs that are being cut out or are posted. */
  load: number;
}

/** One run at work, one ready behind it. */
const RUNS_PER_LANE = 2;

/** A model on one device. Open it with {@link openReplica}. */
export class Replica {
  readonly facts: SessionFacts;
  /** The device in use, as messages name it. */
  readonly device: string;
  readonly #slots: Slot[];
  readonly #open: () => Promise<Lane>;
  readonly #policy: LaneDeathPolicy;
  readonly #queue: Job[] = [];
  readonly #spare: ArrayBuffer[] = [];
  readonly #warm = new WarmSizes();
  #counts = { runs: 0, failures: 0, restarts: 0 };
  #spent = { runMs: 0, feedMs: 0 };
  #rowMs: number[] = [];
  #closing: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;
  #removed: TapirError | undefined;
  #isReopening = false;

  constructor(lanes: readonly Lane[], open: () => Promise<Lane>, policy: LaneDeathPolicy) {
    this.facts = lanes[0]!.facts;
    this.device = deviceName(this.facts.device);
    this.#open = open;
    this.#policy = policy;
    this.#slots = lanes.map((lane) => ({ lane, load: 0 }));
    for (const slot of this.#slots) this.#watch(slot);
  }

  /** Whether the device is not used any more, because its lane has died. */
  get isRemoved(): boolean {
    return this.#removed !== undefined;
  }

  /** Runs that are waiting or at work. */
  get load(): number {
    return this.#queue.length + this.#slots.reduce((sum, slot) => sum + slot.load, 0);
  }

  get sessions(): number {
    return this.#slots.length;
  }

  /** Runs that succeeded. */
  get runs(): number {
    return this.#counts.runs;
  }

  get counts(): ReplicaCounts {
    return { ...this.#counts };
  }

  /** So far. */
  get spent(): ReplicaSpent {
    return { ...this.#spent };
  }

  /** Ids of the processes that hold the sessions. */
  get pids(): readonly number[] {
    return this.#slots.flatMap(({ lane }) => (lane ? [lane.pid] : []));
  }

  /** Milliseconds inside onnxruntime per row, of the latest runs. */
  get recentRowMs(): readonly number[] {
    return this.#rowMs;
  }

  /** The number of rows to run so many at: more of them on a GPU that has run at that size before. */
  fitRows(rows: number): number {
    return this.facts.device.type === 'cuda' ? this.#warm.fit(rows) : rows;
  }

  /** Runs the model; outputs come in the order of `fetches`, in buffers that the caller owns. */
  run(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    { signal, transfer = false }: ReplicaRunOptions = {},
  ): Promise<readonly NamedTensor[]> {
    if (this.#closing)
      return Promise.reject(
        new TapirError('CLOSED', 'this session is closed', { details: { what: 'session' } }),
      );
    if (this.#removed) return Promise.reject(this.#removed);
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const settle = (): boolean => {
        const isFirst = !job.isSettled;
        job.isSettled = true;
        signal?.removeEventListener('abort', onAbort);
        return isFirst;
      };
      const job: Job = {
        parts,
        fetches,
        transfer,
        isSettled: false,
        resolve: (outputs) => void (settle() && resolve(outputs)),
        reject: (error) => void (settle() && reject(error as Error)),
      };
      const onAbort = (): void => {
        const at = this.#queue.indexOf(job);
        if (at >= 0) this.#queue.splice(at, 1);
        job.reject(signal!.reason);
        this.#checkIdle();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#queue.push(job);
      this.#pump();
    });
  }

  /** Waits for the runs that were asked for, then ends the sessions. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.load > 0 || this.#isReopening) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    await Promise.all(this.#slots.flatMap(({ lane }) => (lane ? [lane.close()] : [])));
    this.#spare.length = 0;
  }

  #checkIdle(): void {
    if (this.load === 0 && !this.#isReopening) this.#onIdle?.();
  }

  /** Gives waiting runs to sessions with room, the least loaded first. */
  #pump(): void {
    if (this.#removed) for (const job of this.#queue.splice(0)) job.reject(this.#removed);
    while (this.#queue.length > 0) {
      const [slot] = this.#slots
        .filter(({ lane, load }) => lane?.isGone === false && load < RUNS_PER_LANE)
        .toSorted((a, b) => a.load - b.load);
      if (!slot) break;
      const job = this.#queue.shift()!;
      if (!job.isSettled) void this.#dispatch(slot, slot.lane!, job);
    }
    const dead = this.#slots.find(({ lane }) => lane === undefined);
    if (dead && this.#queue.length > 0) void this.#reopen(dead);
    this.#checkIdle();
  }

  async #dispatch(slot: Slot, lane: Lane, job: Job): Promise<void> {
    slot.load++;
    try {
      const feeds: Feed[] = [];
      for (const part of job.parts)
        feeds.push(await cutFeed(part, job.transfer, (bytes) => this.#take(bytes)));
      if (job.isSettled) return;
      // Another run may have moved the same buffer just now; such a message would never arrive.
      for (const feed of feeds) if (!isShared(feed)) checkPresent(feed.name, feed);
      if (lane.isGone) {
        // It died before it saw this run.
        this.#queue.unshift(job);
        return;
      }
      const { outputs, spent, runMs, feedMs } = await lane.run(feeds, job.fetches);
      this.#keep(spent);
      this.#counts.runs++;
      this.#spent.runMs += runMs;
      this.#spent.feedMs += feedMs;
      const rows = Math.max(1, job.parts[0]?.size ?? 1);
      this.#rowMs = [...this.#rowMs.slice(1 - RECENT_RUNS), runMs / rows];
      job.resolve(outputs);
    } catch (error) {
      this.#counts.failures++;
      job.reject(error);
    } finally {
      slot.load--;
      this.#pump();
    }
  }

  #watch(slot: Slot): void {
    const { lane } = slot;
    void lane!.gone.then((reason) => {
      if (this.#closing && this.load === 0) return;
      slot.lane = undefined;
      if (this.#policy === 'remove' && this.#slots.every((other) => other.lane === undefined)) {
        const details = { device: this.device, reason };
        const message = `${this.device} is not used any more: its session ended unexpectedly (${reason})`;
        this.#removed = new TapirError('LANE_DIED', message, { details });
      }
      this.#pump();
    });
  }

  async #reopen(slot: Slot): Promise<void> {
    if (this.#isReopening || this.#policy === 'remove') return;
    this.#isReopening = true;
    try {
      slot.lane = await this.#open();
      this.#counts.restarts++;
      this.#watch(slot);
    } catch (error) {
      // Runs that no session is left for; the next one tries again.
      if (this.#slots.every(({ lane }) => lane === undefined))
        for (const job of this.#queue.splice(0)) job.reject(error);
    } finally {
      this.#isReopening = false;
      this.#pump();
    }
  }

  #take(bytes: number): ArrayBuffer | undefined {
    const at = this.#spare.findIndex((buffer) => buffer.byteLength === bytes);
    return at < 0 ? undefined : this.#spare.splice(at, 1)[0];
  }

  /** Keeps as many buffers as runs can be open at once; the oldest go first. */
  #keep(buffers: readonly ArrayBuffer[]): void {
    this.#spare.push(...buffers);
    const most = buffers.length * this.#slots.length;
    if (this.#spare.length > most) this.#spare.splice(0, this.#spare.length - most);
  }
}

const RECENT_RUNS = 16;

/**
 * Opens a model on a device.
 *
 * @param place - The device, its sessions, and what to do when one dies.
 * @param describe - Prepares what a session needs; called for each, and again for one that is opened anew.
 * @param start - Starts a thread or process; tests give one of their own.
 * @throws {@link TapirError} those of {@link openLane}.
 */
export async function openReplica(
  place: ReplicaPlace,
  describe: (failure?: unknown) => Promise<LaneDescription>,
  start?: typeof startLane,
): Promise<Replica> {
  const open = (): Promise<Lane> => openLane(place, describe, start);
  const opening = await Promise.allSettled(Array.from({ length: place.sessions }, open));
  const lanes = opening.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failed = opening.find((result) => result.status === 'rejected');
  if (!failed) return new Replica(lanes, open, place.onLaneDeath);
  await Promise.all(lanes.map((lane) => lane.close()));
  throw failed.reason;
}
