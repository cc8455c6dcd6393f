/**
 * Images of many requests → batches. Each image is decoded into a place of its buffer. The images that are ready run together once
 * they fill a batch, or once the first of them has waited long enough. This file knows neither HTTP nor models.
 */
import { HttpError } from '../http/http-error.js';

/** The work that a batcher arranges. Places are numbers from 0 to `places - 1`. */
export interface BatchWork<Image, Row> {
  /** Decodes an image into a place; rejects with the image's error. */
  decode(image: Image, place: number): Promise<unknown>;
  /** Runs decoded images; returns a row for each of them, in order. */
  run(places: readonly number[]): Promise<readonly Row[]>;
  /** Orders decoded images: those with near numbers have similar shapes, and are better run together. Left out if all have one shape. */
  shapeOf?(place: number): number;
}

/** The sizes of a batcher: integers from 1, except `maxWaitMs`, which may be 0. */
export interface BatchPlan {
  /** Maximum number of images per run. */
  readonly maxBatch: number;
  /** How long the first image of a partial batch waits for others. */
  readonly maxWaitMs: number;
  /** Maximum number of images that wait, are being decoded, or are ready. */
  readonly maxQueue: number;
  /** Images decoded at once. */
  readonly decodesAtOnce: number;
  /** Runs that execute at once. A partial batch does not queue behind them; it keeps growing. */
  readonly sessions: number;
  /** Runs in flight, including one that waits for each session. */
  readonly runsAtOnce: number;
}

/** The number of places: for runs in flight, for the batch that is being gathered, and for images being decoded. */
export function placesOf({ maxBatch, runsAtOnce, decodesAtOnce }: BatchPlan): number {
  return maxBatch * (runsAtOnce + 1) + decodesAtOnce;
}

interface Job<Image, Row> {
  readonly image: Image;
  place: number;
  readyAt: number;
  isCancelled: boolean;
  resolve(row: Row): void;
  reject(error: unknown): void;
}

export class Batcher<Image, Row> {
  readonly #work: BatchWork<Image, Row>;
  readonly #plan: BatchPlan;
  readonly #free: number[];
  #waiting: Job<Image, Row>[] = [];
  #ready: Job<Image, Row>[] = [];
  readonly #decoding = new Set<Job<Image, Row>>();
  #running = 0;
  #timer: NodeJS.Timeout | undefined;
  #isHurried = false;
  #onIdle: (() => void) | undefined;

  constructor(work: BatchWork<Image, Row>, plan: BatchPlan) {
    this.#work = work;
    this.#plan = plan;
    this.#free = Array.from({ length: placesOf(plan) }, (_, place) => place);
  }

  /** Images that are not part of a run yet. */
  get queued(): number {
    return this.#waiting.length + this.#decoding.size + this.#ready.length;
  }

  get running(): number {
    return this.#running;
  }

  /** Whether the queue has no room for another image. */
  get isFull(): boolean {
    return this.queued >= this.#plan.maxQueue;
  }

  /**
   * Takes all images of a request, or throws.
   *
   * @param signal - Cancels the images that have not begun to run.
   * @returns For each image its row, or a rejection with the image's error, the run's error, or the signal's reason.
   * @throws {@link HttpError} `QUEUE_FULL` if the queue has no room for them.
   */
  add(images: readonly Image[], signal: AbortSignal): Promise<Row>[] {
    if (this.queued + images.length > this.#plan.maxQueue) {
      const room = `${this.queued} of ${this.#plan.maxQueue} places are taken, ${images.length} are needed`;
      throw new HttpError('QUEUE_FULL', `the queue is full: ${room}; try again later`);
    }
    const jobs: Job<Image, Row>[] = [];
    const rows = images.map(
      (image) =>
        new Promise<Row>((resolve, reject) => {
          jobs.push({ image, place: -1, readyAt: 0, isCancelled: false, resolve, reject });
        }),
    );
    const cancel = (): void => this.#cancel(new Set(jobs), signal.reason);
    signal.addEventListener('abort', cancel, { once: true });
    void Promise.allSettled(rows).then(() => signal.removeEventListener('abort', cancel));
    this.#waiting.push(...jobs);
    if (signal.aborted) cancel();
    this.#pump();
    return rows;
  }

  /** Stops waiting for full batches. */
  hurry(): void {
    this.#isHurried = true;
    this.#pump();
  }

  /** Waits until all images have settled. */
  async drain(): Promise<void> {
    this.hurry();
    while (this.queued > 0 || this.#running > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
  }

  #cancel(jobs: ReadonlySet<Job<Image, Row>>, reason: unknown): void {
    const isOther = (job: Job<Image, Row>): boolean => !jobs.has(job);
    for (const job of this.#ready) if (jobs.has(job)) this.#free.push(job.place);
    this.#ready = this.#ready.filter(isOther);
    this.#waiting = this.#waiting.filter(isOther);
    for (const job of jobs) {
      // An image that is being decoded keeps its place until the thread has finished with it.
      job.isCancelled = true;
      job.reject(reason);
    }
    this.#pump();
  }

  #pump(): void {
    const { decodesAtOnce } = this.#plan;
    while (this.#waiting.length > 0 && this.#free.length > 0 && this.#decoding.size < decodesAtOnce)
      void this.#decode(this.#waiting.shift()!, this.#free.pop()!);
    this.#dispatch();
    if (this.queued === 0 && this.#running === 0) this.#onIdle?.();
  }

  async #decode(job: Job<Image, Row>, place: number): Promise<void> {
    this.#decoding.add(job);
    let isDecoded = false;
    try {
      await this.#work.decode(job.image, place);
      isDecoded = !job.isCancelled;
    } catch (error) {
      job.reject(error);
    }
    this.#decoding.delete(job);
    if (isDecoded) {
      job.place = place;
      job.readyAt = performance.now();
      this.#ready.push(job);
    } else this.#free.push(place);
    this.#pump();
  }

  #dispatch(): void {
    clearTimeout(this.#timer);
    const { maxBatch, maxWaitMs, sessions, runsAtOnce } = this.#plan;
    while (this.#ready.length > 0 && this.#running < runsAtOnce) {
      if (this.#ready.length < maxBatch) {
        if (this.#running >= sessions) return;
        const waitMs = this.#isHurried ? 0 : this.#ready[0]!.readyAt + maxWaitMs - performance.now();
        if (waitMs > 0) {
          this.#timer = setTimeout(() => this.#dispatch(), waitMs);
          return;
        }
      }
      void this.#run(this.#take(maxBatch));
    }
  }

  /** The oldest image that is ready, and of the others those that are most like it. So none waits for ever. */
  #take(count: number): Job<Image, Row>[] {
    const shapeOf = (job: Job<Image, Row>): number => this.#work.shapeOf?.(job.place) ?? 0;
    const oldest = shapeOf(this.#ready[0]!);
    const away = (job: Job<Image, Row>): number => Math.abs(shapeOf(job) - oldest);
    const taken = new Set(this.#ready.toSorted((a, b) => away(a) - away(b)).slice(0, count));
    const jobs = this.#ready.filter((job) => taken.has(job));
    this.#ready = this.#ready.filter((job) => !taken.has(job));
    return jobs;
  }

  async #run(jobs: readonly Job<Image, Row>[]): Promise<void> {
    this.#running++;
    const places = jobs.map(({ place }) => place);
    try {
      const rows = await this.#work.run(places);
      jobs.forEach((job, i) => job.resolve(rows[i]!));
    } catch (error) {
      for (const job of jobs) job.reject(error);
    }
    this.#running--;
    this.#free.push(...places);
    this.#pump();
  }
}
