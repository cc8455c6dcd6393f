/** Threads that decode images into shared memory, several images at a time. */
import { Worker } from 'node:worker_threads';
import { machineFailure } from '../../../base/machine-failure.js';
import { TapirError } from '../../../base/errors.js';
import { unpackError } from '../../../base/packed-error.js';
import { packageFile } from '../../../base/package.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import type { PageRange } from '../decode/decode-pages.js';
import { sharpState, type DecoderVersions } from '../decode/open-sharp.js';
import type { Checksum, ImageFile, StampTaker } from '../file/image-file.js';
import type { TilePlan } from '../transform/tile-options.js';
import type { Transform } from '../transform/transform.js';
import type {
  CloseRequest,
  DecodedSize,
  DecodeReply,
  DecodeRequest,
  DecodeSpent,
  DecodeThreadData,
  LoadedTiles,
  StampedOnly,
  TileRequest,
} from './decode-protocol.js';

/** One run in progress and the next one queued behind it. */
const RUNS_PER_LANE = 2;
/** Most images in a run, which is one message to the thread and one back. */
const IMAGES_PER_RUN = 16;
/** Target for the length of a run: images wait this long behind a slow one. */
const RUN_MS = 50;
/** Weight of the latest image in the moving average of the time per image. */
const LATEST_SHARE = 0.1;

/** Who waits for an answer. */
interface Waiting {
  resolve(reply: DecodedSize | LoadedTiles | StampedOnly): void;
  reject(error: Error): void;
}

interface Job extends Waiting {
  readonly request: DecodeRequest;
}

/** A picture whose tiles are loaded. */
export interface LanePicture {
  readonly number: number;
  readonly source: ImageFile;
  readonly plan: TilePlan;
  /** The threads that have it open. */
  readonly lanes: Set<Lane>;
  /** Whether further threads may open it. */
  isRandom: boolean;
}

interface Lane {
  readonly worker: Worker;
  readonly jobs: Map<number, Waiting>;
  /** Runs without an answer so far. */
  runs: number;
  readonly ended: Promise<void>;
}

const NO_CHECKSUM = { checksum: false } as const;

const failedStamps = new WeakMap<Error, FileStamp>();

/** The stamp of a file that could be opened but failed, by the error from {@link DecodeLanes.load}. */
export function stampOfFailed(error: Error): FileStamp | undefined {
  return failedStamps.get(error);
}

/**
 * Decoding threads for one transform. They start on demand and do not keep the process alive while idle.
 *
 * @remarks A thread gets several images at once, because a reply can block the owner for milliseconds (docs/decisions/012-embedding.md). It
 * gets as many as take 50 ms, at most 16, and at most its share of the waiting images.
 */
export class DecodeLanes {
  readonly #transform: Transform;
  /** The most threads to start. */
  most: number;
  /** Whether the threads hash the content of each file. */
  readonly checksum: Checksum;
  readonly #lanes: Lane[] = [];
  readonly #queue: Job[] = [];
  #spent = { decodeMs: 0, resampleMs: 0 };
  #decoder: DecoderVersions | undefined;
  /** Average milliseconds per image in a thread; undefined before the first image. */
  #imageMs: number | undefined;
  #nextId = 0;
  /** Not 0 once the threads must not begin another image. */
  readonly #stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  #isPumping = false;
  #isClosed = false;

  constructor(transform: Transform, most: number, options: Pick<StampTaker, 'checksum'> = NO_CHECKSUM) {
    this.#transform = transform;
    this.most = most;
    this.checksum = options.checksum;
  }

  /** The decoder's versions; undefined until an image needs it. */
  get decoder(): DecoderVersions | undefined {
    return this.#decoder;
  }

  /** Time spent on images so far, without failed ones. */
  get spent(): DecodeSpent {
    return { ...this.#spent };
  }

  /**
   * Reads, decodes and transforms an image.
   *
   * @param source - A path, or the bytes of a file, which are copied.
   * @param into - Receives the pixels: `height × width × 3` bytes of the transform's size, in a SharedArrayBuffer. Undefined if the photo
   * decides the size: the result then has them.
   * @param isMeasured - Whether to compare the pixels of a fast mode with the exact ones.
   * @param augmentSeed - Chooses a random crop, in place of the transform's own, and flip; see `loadPixels`.
   * @param pages - Of a GIF or WebP, in place of its first page; `into` receives one after the other.
   * @returns The size of the image in the file, and the file's stamp.
   * @throws {@link TapirError} `IMAGE_*` ({@link stampOfFailed} gives the stamp); `DEPENDENCY_MISSING`; `DECODER_DIED` if
   * the thread ends; `CLOSED`.
   */
  load(
    source: ImageFile,
    into: Uint8Array | undefined,
    isMeasured = false,
    augmentSeed?: number,
    pages?: PageRange,
  ): Promise<DecodedSize> {
    return this.#ask<DecodedSize>({ source, isStamp: false, into, isMeasured, augmentSeed, pages });
  }

  /** Reads a file, and hashes it if the threads do: its stamp. Throws as {@link load} does. */
  async stampOf(source: ImageFile): Promise<FileStamp> {
    const rest = { into: undefined, isMeasured: false, augmentSeed: undefined, pages: undefined };
    const { stamp } = await this.#ask<StampedOnly>({ source, isStamp: true, ...rest });
    return stamp;
  }

  #ask<Reply extends DecodedSize | StampedOnly>(asked: Omit<DecodeRequest, 'id'>): Promise<Reply> {
    if (this.#isClosed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      const request = { id: this.#nextId++, ...asked };
      this.#queue.push({ request, resolve: (reply) => resolve(reply as Reply), reject });
      if (this.#isPumping) return;
      this.#isPumping = true;
      // Calls made in the same turn of the event loop go together.
      setImmediate(() => {
        this.#isPumping = false;
        this.#pump();
      });
    });
  }

  /** A picture to load tiles of. Close it. */
  openPicture(source: ImageFile, plan: TilePlan): LanePicture {
    return { number: this.#nextId++, source, plan, lanes: new Set(), isRandom: false };
  }

  /**
   * Loads the tiles of a picture from one on, as many as are read at once. One thread keeps the picture open; of a picture whose regions
   * are read from its file, any thread loads tiles.
   *
   * @param into - Receives the transformed tiles, in a SharedArrayBuffer.
   * @throws {@link TapirError} as {@link load} does.
   */
  async loadTiles(picture: LanePicture, first: number, into: Uint8Array): Promise<LoadedTiles> {
    if (this.#isClosed) throw closed();
    const lane = this.#laneOf(picture);
    const isOpen = picture.lanes.has(lane);
    picture.lanes.add(lane);
    const { number, plan, source: given } = picture;
    // A copy: transferring a view would take its whole buffer away from the caller.
    const source = isOpen || isSharedFile(given) ? given : Uint8Array.from(given as Uint8Array);
    const id = this.#nextId++;
    const request = { id, picture: number, first, into, ...(isOpen ? {} : { open: { source, plan } }) };
    const loaded = await new Promise<Parameters<Waiting['resolve']>[0]>((resolve, reject) => {
      lane.jobs.set(id, { resolve, reject });
      lane.runs++;
      lane.worker.ref();
      lane.worker.postMessage(request satisfies TileRequest);
    });
    picture.isRandom = (loaded as LoadedTiles).isRandom;
    return loaded as LoadedTiles;
  }

  closePicture({ number, lanes }: LanePicture): void {
    for (const { worker } of lanes) worker.postMessage({ close: number } satisfies CloseRequest);
  }

  /** The thread for the next tiles of a picture: its own, or the one with the fewest runs. */
  #laneOf({ lanes, isRandom }: LanePicture): Lane {
    const [own] = lanes;
    if (own && !isRandom) return own;
    const free = this.#lanes.toSorted((a, b) => a.runs - b.runs)[0];
    return free && (free.runs === 0 || this.#lanes.length >= this.most) ? free : this.#startLane();
  }

  /** Starts a thread before the first image, since that takes 0.2 s. */
  warm(): void {
    if (this.#lanes.length === 0) this.#startLane().worker.unref();
  }

  /** Rejects images that no thread has begun, waits for the others, and ends the threads. Idempotent. */
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
        const { request } = job;
        lane.jobs.set(request.id, job);
        // A copy: transferring a view would take its whole buffer away from the caller.
        const source = isSharedFile(request.source)
          ? request.source
          : new Uint8Array(request.source as Uint8Array);
        if (typeof source !== 'string' && source.buffer instanceof ArrayBuffer) transfer.push(source.buffer);
        run.push({ ...request, source });
      }
      lane.runs++;
      lane.worker.ref();
      lane.worker.postMessage(run, transfer);
    }
  }

  /** How many images the next run has. Idle threads share the waiting images; without any, threads with room do. */
  #runLength(): number {
    const inTime = this.#imageMs === undefined ? 1 : Math.floor(RUN_MS / this.#imageMs);
    const working = this.#lanes.filter(({ runs }) => runs > 0);
    const takers = this.most - working.length || working.filter(({ runs }) => runs < RUNS_PER_LANE).length;
    return Math.max(1, Math.min(IMAGES_PER_RUN, inTime, Math.ceil(this.#queue.length / takers)));
  }

  /** An idle thread, else a new one, else one with room for a run. */
  #findLane(): Lane | undefined {
    const idle = this.#lanes.find(({ runs }) => runs === 0);
    if (idle) return idle;
    if (this.#lanes.length < this.most) return this.#startLane();
    return this.#lanes.find(({ runs }) => runs < RUNS_PER_LANE);
  }

  /** Adds the time that an image took. */
  #count({ decodeMs, resampleMs, decoder }: DecodeSpent & { decoder: DecoderVersions | undefined }): void {
    this.#spent.decodeMs += decodeMs;
    this.#spent.resampleMs += resampleMs;
    this.#decoder ??= decoder;
    const ms = decodeMs + resampleMs;
    this.#imageMs ??= ms;
    this.#imageMs += LATEST_SHARE * (ms - this.#imageMs);
  }

  #startLane(): Lane {
    const worker = new Worker(packageFile('dist/lib/decode-thread.cjs'), {
      workerData: {
        transform: this.#transform.options,
        checksum: this.checksum,
        stop: this.#stop,
        sharpState: sharpState(),
      } satisfies DecodeThreadData,
      // Without the caller's loaders and flags (a test runner, tsx): the file is plain JavaScript.
      execArgv: [],
      // A thread keeps little beyond an image, and pixels are outside its heap. With a larger heap V8 collects garbage later,
      // and memory grows with the number of images.
      resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 },
    });
    const jobs = new Map<number, Waiting>();
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
      // close() waits for the threads.
      if (lane.runs === 0 && !this.#isClosed) worker.unref();
      this.#pump();
    });
    this.#lanes.push(lane);
    return lane;
  }
}

/** Whether a thread can read it where it lies: a path, or bytes in shared memory. */
function isSharedFile(source: ImageFile): boolean {
  return typeof source === 'string' || source.buffer instanceof SharedArrayBuffer;
}

function closed(): TapirError<'CLOSED'> {
  return new TapirError('CLOSED', 'the decoding threads are closed', {
    details: { what: 'decoding threads' },
  });
}

function died(reason: string): TapirError {
  // A thread that cannot open its own file says so in words alone.
  const failure = machineFailure(new Error(reason));
  if (failure?.code === 'TOO_MANY_OPEN_FILES') return failure;
  return new TapirError('DECODER_DIED', `a decoding thread ended unexpectedly: ${reason}`, {
    details: { reason },
  });
}
