/** The lanes of a replica: which of them are alive, and when a dead one is opened again. */
import { reasonOf, TapirError } from '../../base/errors.js';
import type { Lane } from './lanes/lane.js';

/** Runs that a stream of a session has at the same time: one that it computes and one that is ready, so that it never waits for a copy. */
export const RUNS_PER_SESSION = 2;

/** What happens to a device whose thread or process has ended: it is opened again for the next run, or no longer used. */
export type LaneDeathPolicy = 'restart' | 'remove';

/** After this many failed attempts in a row, dead lanes stay dead. */
export const REOPEN_ATTEMPTS = 8;
/** Pause after the first failed attempt. It doubles with each further one, so that all attempts take about half a minute. */
export const REOPEN_PAUSE_MS = 250;

/** A place for a lane. */
export interface Slot {
  lane: Lane | undefined;
  /** Runs that the lane computes at the same time. */
  readonly streams: number;
  /** Runs that the lane has, or that are being copied for it. */
  load: number;
}

/** What a pool needs of its replica. */
export interface PoolOwner {
  /** The device as messages name it. */
  readonly device: string;
  readonly policy: LaneDeathPolicy;
  open(): Promise<Lane>;
  /** Called when a lane has died or was opened, and when the next attempt to open one may start. */
  changed(): void;
  /** Called when a lane could not be opened and no other one is alive. */
  failed(error: unknown): void;
}

/** Lanes of the same model on the same device. */
export class LanePool {
  readonly #owner: PoolOwner;
  readonly #slots: readonly Slot[];
  #restarts = 0;
  /** Failed attempts to open a lane since the last one that succeeded. */
  #failures = 0;
  #isOpening = false;
  #pause: NodeJS.Timeout | undefined;
  #end: TapirError | undefined;
  #isClosed = false;

  constructor(lanes: readonly Lane[], owner: PoolOwner) {
    this.#owner = owner;
    this.#slots = lanes.map((lane) => ({ lane, streams: lane.streams, load: 0 }));
    for (const slot of this.#slots) this.#watch(slot);
  }

  /** Runs that the lanes compute at the same time. */
  get size(): number {
    return this.#slots.reduce((sum, { streams }) => sum + streams, 0);
  }

  /** Runs of all lanes. */
  get load(): number {
    return this.#slots.reduce((sum, { load }) => sum + load, 0);
  }

  /** How often a lane was opened again. */
  get restarts(): number {
    return this.#restarts;
  }

  get isOpening(): boolean {
    return this.#isOpening;
  }

  /** Why no lane will be alive again; undefined as long as one is, or can be opened. */
  get end(): TapirError | undefined {
    return this.#end;
  }

  /** Ids of the processes that hold the sessions. */
  get pids(): readonly number[] {
    return this.#slots.flatMap(({ lane }) => (lane ? [lane.pid] : []));
  }

  /** The least loaded lane that has room for a run; undefined if all are busy or dead. */
  next(): Slot | undefined {
    return this.#slots
      .filter(({ lane, streams, load }) => lane?.isGone === false && load < RUNS_PER_SESSION * streams)
      .toSorted((a, b) => a.load - b.load)[0];
  }

  /** Opens a dead lane, if there is one and it is time for the next attempt. `changed` or `failed` is called then. */
  reopen(): void {
    const dead = this.#slots.find(({ lane }) => lane === undefined);
    if (!dead || this.#isOpening || this.#isOver) return;
    // Runs are waiting for the end of the pause, so the process must not exit before.
    if (this.#pause) this.#pause.ref();
    else void this.#open(dead);
  }

  /** Lets the process exit during a pause, because no run is waiting. */
  rest(): void {
    this.#pause?.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#pause);
    await Promise.all(this.#slots.flatMap(({ lane }) => (lane ? [lane.close()] : [])));
  }

  /** Whether lanes that die stay dead. */
  get #isOver(): boolean {
    return this.#owner.policy === 'remove' || this.#failures >= REOPEN_ATTEMPTS;
  }

  get #isDead(): boolean {
    return this.#slots.every(({ lane }) => lane === undefined);
  }

  #watch(slot: Slot): void {
    void slot.lane!.gone.then((reason) => {
      if (this.#isClosed) return;
      slot.lane = undefined;
      if (this.#isDead && this.#isOver) this.#finish(`its session ended unexpectedly (${reason})`, reason);
      this.#owner.changed();
    });
  }

  async #open(slot: Slot): Promise<void> {
    this.#isOpening = true;
    try {
      slot.lane = await this.#owner.open();
      this.#failures = 0;
      this.#restarts++;
      this.#watch(slot);
    } catch (error) {
      this.#failures++;
      this.#waitAfter(error);
      if (this.#isDead) this.#owner.failed(this.#end ?? error);
    }
    this.#isOpening = false;
    this.#owner.changed();
  }

  /** Starts the pause after a failed attempt, or gives up. */
  #waitAfter(error: unknown): void {
    if (this.#failures >= REOPEN_ATTEMPTS) {
      const reason = reasonOf(error);
      if (this.#isDead)
        this.#finish(
          `its session could not be opened again in ${REOPEN_ATTEMPTS} attempts (${reason})`,
          reason,
          error,
        );
      return;
    }
    this.#pause = setTimeout(
      () => {
        this.#pause = undefined;
        this.#owner.changed();
      },
      REOPEN_PAUSE_MS * 2 ** (this.#failures - 1),
    );
    this.#pause.unref();
  }

  #finish(why: string, reason: string, cause?: unknown): void {
    const { device } = this.#owner;
    this.#end = new TapirError('LANE_DIED', `${device} is no longer used: ${why}`, {
      details: { device, reason },
      cause,
    });
  }
}
