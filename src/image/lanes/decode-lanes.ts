/** Threads that decode images into shared memory, several at a time. */
import { Worker } from 'node:worker_threads';
import { TapirError, unpackError } from '../../base/errors.js';
import { packageFile } from '../../base/package.js';
import type {
  DecodedSize,
  DecodeReply,
  DecodeRequest,
  DecodeSpent,
  DecodeThreadData,
} from './decode-protocol.js';
import type { DecoderVersions } from '../decode/decode.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { Transform } from '../transform.js';

/** One at work and one ready behind it. */
const RUNS_PER_LANE = 2;
/** Most images of a run, which is one message there and one back. */
const IMAGES_PER_RUN = 16;
/** Longest time that a run is to take: behind a slow image, others wait so long. */
const RUN_MS = 50;
/** How much of the time per image is the latest one's. */
const LATEST_SHARE = 0.1;

interface Job extends DecodeRequest {
  resolve(size: DecodedSize): void;
  reject(error: Error): void;
}

interface Lane {
  readonly worker: Worker;
  readonly jobs: Map<number, Job>;
  /** Runs that are not answered yet. */
  runs: number;
  readonly ended: Promise<void>;
}

const NO_CHECKSUM = { checksum: false };

const failedStamps = new WeakMap<Error, FileStamp>();

/** The stamp of a file that could be opened and was then refused with an error by {@link DecodeLanes.load}. */
export function stampOfFailed(error: Error): FileStamp | undefined {
  return failedStamps.get(error);
}

/**
 * Decoding threads of one transform. They start as they are needed, and do not keep the process alive while idle.
 *
 * @remarks A thread is handed several images at once, since a reply can block its owner for milliseconds
 * (docs/decisions/012-embedding.md): as many as take 50 ms, sixteen at most, and never more than its share of what waits.
 */
export class DecodeLanes {
  readonly #transform: Transform;
  /** How many threads may be started. */
  most: number;
  /** Whether they hash the content of each file. */
  readonly checksum: boolean;
  readonly #lanes: Lane[] = [];
  readonly #queue: Job[] = [];
  #spent = { decodeMs: 0, resampleMs: 0 };
  #decoder: DecoderVersions | undefined;
  /** Milliseconds that an image takes a thread; undefined before the first one. */
  #imageMs: number | undefined;
  #nextId = 0;
  /** Set when the threads shall begin no further image. */
  readonly #stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  #isPumping = false;
  #isClosed = false;

  /**
   * @param most - How many threads may be started.
   * @param options - `checksum`: hash the content of each file, for its stamp.
   */
  constructor(transform: Transform, most: number, options: { readonly checksum: boolean } = NO_CHECKSUM) {
    this.#transform = transform;
    this.most = most;
    this.checksum = options.checksum;
  }

  /** What the images were decoded with; undefined if none of them needed it. */
  get decoder(): DecoderVersions | undefined {
    return this.#decoder;
  }

  /** What the images have taken so far, failed ones left out. */
  get spent(): DecodeSpent {
    return { ...this.#spent };
  }

  /**
   * Reads, decodes and transforms an image.
   *
   * @param source - A path, or the bytes of a file, which are copied.
   * @param into - Takes the pixels, `height × width × 3` bytes of the transform's size; over a SharedArrayBuffer.
   * @param isMeasured - Compare what a fast mode makes of it with the exact pixels.
   * @returns The image's size in the file, and the file's stamp.
   * @throws {@link TapirError} `IMAGE_*` ({@link stampOfFailed} tells the stamp); `DEPENDENCY_MISSING`; `DECODER_DIED` if
   * the thread ends; `CLOSED`.
   */
  load(source: string | Uint8Array, into: Uint8Array, isMeasured = false): Promise<DecodedSize> {
    if (this.#isClosed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      this.#queue.push({ id: this.#nextId++, source, into, isMeasured, resolve, reject });
      if (this.#isPumping) return;
      this.#isPumping = true;
      // Those that are asked for in the same turn go together.
      setImmediate(() => {
        this.#isPumping = false;
        this.#pump();
      });
    });
  }

  /** Starts a thread before there is anything to do: it takes a fifth of a second. */
  warm(): void {
    if (this.#lanes.length === 0) this.#startLane().worker.unref();
  }

  /** Gives up what has not begun, waits for what has, and ends the threads. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    Atomics.store(this.#stop, 0, 1);
    for (const job of this.#queue.splice(0)) job.reject(closed());
    for (const { worker } of this.#lanes) {
      worker.ref();
      worker.postMessage(null);
    }
    await Promise.all(this.#lanes.map(({ ended }) => ended));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #pump(): void {
    while (this.#queue.length > 0) {
      const lane = this.#findLane();
      if (!lane) return;
      const transfer: ArrayBuffer[] = [];
      const run: DecodeRequest[] = [];
      for (const job of this.#queue.splice(0, this.#runLength())) {
        lane.jobs.set(job.id, job);
        const { id, into, isMeasured } = job;
        // A view of a large buffer would take all of it along.
        const source = typeof job.source === 'string' ? job.source : Uint8Array.from(job.source);
        if (typeof source !== 'string') transfer.push(source.buffer);
        run.push({ id, source, into, isMeasured });
      }
      lane.runs++;
      lane.worker.ref();
      lane.worker.postMessage(run, transfer);
    }
  }

  /** How many images the next run has: those that wait are shared by the idle threads, or else by those with room. */
  #runLength(): number {
    const inTime = this.#imageMs === undefined ? 1 : Math.floor(RUN_MS / this.#imageMs);
    const working = this.#lanes.filter(({ runs }) => runs > 0);
    const takers = this.most - working.length || working.filter(({ runs }) => runs < RUNS_PER_LANE).length;
    return Math.max(1, Math.min(IMAGES_PER_RUN, inTime, Math.ceil(this.#queue.length / takers)));
  }

  /** An idle thread, else a new one, else one with room. */
  #findLane(): Lane | undefined {
    const idle = this.#lanes.find(({ runs }) => runs === 0);
    if (idle) return idle;
    if (this.#lanes.length < this.most) return this.#startLane();
    return this.#lanes.find(({ runs }) => runs < RUNS_PER_LANE);
  }

  /** Keeps what an image has taken. */
  #count({ decodeMs, resampleMs, decoder }: DecodeSpent & { decoder: DecoderVersions | undefined }): void {
    this.#spent.decodeMs += decodeMs;
    this.#spent.resampleMs += resampleMs;
    this.#decoder ??= decoder;
    const ms = decodeMs + resampleMs;
    this.#imageMs ??= ms;
    this.#imageMs += LATEST_SHARE * (ms - this.#imageMs);
  }

  #startLane(): Lane {
    // Loaders and flags of the caller (a test runner, tsx) are of no use to this file, which is plain JavaScript.
    const worker = new Worker(packageFile('dist/lib/decode-thread.js'), {
      workerData: {
        transform: this.#transform.options,
        checksum: this.checksum,
        stop: this.#stop,
      } satisfies DecodeThreadData,
      execArgv: [],
      // Little of what a thread makes outlives an image, and pixels are outside its heap; with more room the engine would only
      // collect later: memory would grow with the number of images.
      resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 },
    });
    const jobs = new Map<number, Job>();
    let reason = 'its thread ended';
    const ended = new Promise<void>((resolve) => {
      worker.on('exit', () => {
        this.#lanes.splice(this.#lanes.indexOf(lane), 1);
        for (const job of jobs.values()) job.reject(this.#isClosed ? closed() : died(reason));
        resolve();
        if (!this.#isClosed) this.#pump();
      });
    });
    const lane: Lane = { worker, jobs, runs: 0, ended };
    worker.on('error', (error: unknown) => {
      reason = error instanceof Error ? error.message : String(error);
    });
    worker.on('message', (replies: readonly DecodeReply[]) => {
      lane.runs--;
      for (const reply of replies) {
        const job = jobs.get(reply.id)!;
        jobs.delete(reply.id);
        if (reply.error) {
          const error = unpackError(reply.error);
          if (reply.stamp) failedStamps.set(error, reply.stamp);
          job.reject(error);
        } else {
          this.#count(reply);
          job.resolve(reply);
        }
      }
      // One that is closing is waited for.
      if (lane.runs === 0 && !this.#isClosed) worker.unref();
      this.#pump();
    });
    this.#lanes.push(lane);
    return lane;
  }
}

function closed(): TapirError<'CLOSED'> {
  return new TapirError('CLOSED', 'the decoding threads are closed', {
    details: { what: 'decoding threads' },
  });
}

function died(reason: string): TapirError<'DECODER_DIED'> {
  return new TapirError('DECODER_DIED', `a decoding thread ended unexpectedly: ${reason}`, {
    details: { reason },
  });
}
