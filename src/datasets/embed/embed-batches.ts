/** Source items → features, batch by batch: decoding, the model and the consumer overlap. */
import { isTapirError, TapirError } from '../../base/errors.js';
import { extractorInternals, runsAtOnce, type Extractor } from '../../extract/extractor.js';
import type { Checksum } from '../../photos/images/file/image-file.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { Feed } from '../../onnx/tensor/image-feed.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { buffersOf, type Tensor } from '../../onnx/tensor/tensor.js';
import { runPhotosApart, type PhotoFeatures } from '../../extract/replicas/run-photos.js';
import { groupAlike, stackPhotos } from './stack-photos.js';
import type { EmbedSetup } from './embed-options.js';
import { writtenFeatures } from './written-features.js';
import type { FeedBatch, Feeds, LoadedItem } from '../../photos/feeds/feed-batches.js';
import { openPhotos } from '../../photos/feeds/open-photos.js';
import type { PhotoMemory } from '../../photos/feeds/photo-memory.js';
import type { TriedBatch } from '../../photos/feeds/tried-input.js';
import type { SourceItems } from '../../photos/feeds/items/source-item.js';

/** The items of a batch in order, and a row for each item that could be read. */
export interface EmbeddedBatch extends TriedBatch {
  readonly items: readonly LoadedItem[];
}

/** A batch from {@link embedBatches}. */
export interface RunBatch extends EmbeddedBatch {
  /**
   * Lets later runs write where these features are. Call it once nothing reads them any more: their memory is moved away, which
   * leaves them empty. Without the call, they stay as they are.
   */
  readonly release: () => void;
}

/** Compares the features of a batch. The batch is yielded when the promise settles; until then, its photos do not change. */
export type CompareBatch = (memory: PhotoMemory, features: Readonly<Record<string, Tensor>>) => Promise<void>;

/** Checks batches while their photos are in memory. Its errors end the run. */
export interface BatchCheck {
  /**
   * Called for each batch before it runs, in the order of the batches.
   *
   * @param photos - Their places in memory.
   * @returns undefined if this batch is not checked.
   */
  begin(photos: readonly number[]): CompareBatch | undefined;
}

/** Options of {@link embedBatches}. */
export interface BatchOptions {
  /** Run a partial batch when the source pauses for this long. Without it only the last batch can be partial. */
  readonly maxWaitMs?: number | undefined;
  readonly check?: BatchCheck | undefined;
}

/** Images decoded ahead of the runs, at least two batches, so that one slow image does not hold up the model. */
const IMAGES_AHEAD = 64;
/** The same for each decoding thread: two runs of several images, as a message for a few images costs more than it should. */
const IMAGES_AHEAD_PER_THREAD = 16;

/** Runs the images of a source batch by batch. A batch is a range of positions. An image that cannot be read leaves a gap. */
export async function* embedBatches(
  extractor: Extractor,
  source: SourceItems,
  setup: EmbedSetup,
  lanes: DecodeLanes,
  { maxWaitMs, check }: BatchOptions = {},
): AsyncGenerator<RunBatch> {
  const { signal } = setup;
  const mostRuns = mostRunsOf(extractor, setup.window);
  const loader = openLoader(source, lanes, extractor, setup, maxWaitMs);
  const running: Promise<readonly EmbeddedBatch[]>[] = [];
  /** The buffers of each batch that was released. */
  const released: ArrayBuffer[][] = [];
  const stop = stopOf(signal);
  try {
    const load = (): Promise<FeedBatch | LoadFailure | undefined> =>
      loader.next().catch((error: unknown) => new LoadFailure(error));
    let loading = load();
    let isLast = false;
    let failure: LoadFailure | undefined;
    while (!isLast || running.length > 0) {
      const done = running[0]?.then(() => 'done' as const);
      const loaded = isLast || running.length >= mostRuns ? [] : [loading];
      const event = await stop.orFirst<'done' | FeedBatch | LoadFailure | undefined>([
        ...(done ? [done] : []),
        ...loaded,
      ]);
      if (event === 'done') {
        for (const batch of await running.shift()!)
          yield {
            ...batch,
            release: () => {
              // Features that were stacked or cut have no buffers of a run.
              if (setup.window === null && setup.dims === undefined)
                released.push(buffersOf(Object.values(batch.features)));
            },
          };
      } else if (event === undefined) isLast = true;
      else if (event instanceof LoadFailure) {
        // Batches that were loaded before are not lost.
        isLast = true;
        failure = event;
      } else {
        const run = runBatch(extractor, event, setup, check, released.pop()).finally(event.release);
        // Awaited in order. Until then, a failure must not count as unhandled.
        run.catch(() => undefined);
        running.push(run);
        loading = load();
      }
    }
    if (failure) throw failure.error;
  } finally {
    stop.off();
    loader.stop();
  }
}

class LoadFailure {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

/** Batches that run at once. The runs of a window keep all sessions busy, and the next window is there when they end. */
function mostRunsOf(extractor: Extractor, window: number | null): number {
  return window === null ? runsAtOnce(extractor) : 2;
}

/** The number of threads that decode for an extractor. */
export function decodeThreadsOf(extractor: Extractor, { decodeThreads }: EmbedSetup): number {
  return decodeThreads || extractorInternals.of(extractor).coresToDecode;
}

/** Opens the threads that decode for an extractor, or takes `warm` ones, of the same transform and checksum. */
export function openDecodeLanes(
  extractor: Extractor,
  setup: EmbedSetup,
  warm: DecodeLanes = new DecodeLanes(setup.transform, 1, { checksum: hashing(setup) }),
): DecodeLanes {
  // A defect of the caller: running threads cannot change it.
  if (warm.checksum !== hashing(setup)) throw new Error('warm decoding threads differ in checksum');
  warm.most = decodeThreadsOf(extractor, setup);
  return warm;
}

/** What of photos is hashed: a dataset keeps their digests. */
export function hashing({ checksum, isKept }: Pick<EmbedSetup, 'checksum' | 'isKept'>): Checksum {
  return checksum || (isKept && 'digest');
}

/** Opens a loader that keeps enough batches ahead for the devices to stay busy. */
export function openLoader(
  source: SourceItems,
  lanes: DecodeLanes,
  extractor: Extractor,
  { batch: photosPerRun, window, feeds }: EmbedSetup,
  maxWaitMs?: number,
): Feeds {
  const images = Math.max(IMAGES_AHEAD, IMAGES_AHEAD_PER_THREAD * lanes.most);
  const batch = window ?? photosPerRun;
  const { tiles, clips } = feeds.processor;
  // Tiles are loaded ahead of their batch.
  const ahead = tiles ? 1 : Math.max(2, Math.ceil(images / (batch * (clips?.frames ?? 1))));
  return openPhotos(source, feeds, lanes, {
    batch,
    openBatches: mostRunsOf(extractor, window) + ahead,
    // A source that pauses may wait for rows before it continues, so one free batch is enough to read on.
    refill: maxWaitMs === undefined ? Math.ceil(ahead / 4) : 1,
    maxWaitMs,
  });
}

/**
 * Makes waiting stoppable: `orFirst` settles like the first of some promises, or rejects when the signal fires. Promise.race with a
 * promise for the signal would keep the results of all races in memory until the end.
 */
function stopOf(signal: AbortSignal | undefined): {
  orFirst<Value>(promises: readonly Promise<Value>[]): Promise<Value>;
  off(): void;
} {
  let stopWaiting: ((error: Error) => void) | undefined;
  const onAbort = (): void => stopWaiting?.(signal!.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  return {
    orFirst: (promises) =>
      new Promise((resolve, reject) => {
        stopWaiting = reject;
        if (signal?.aborted) onAbort();
        for (const promise of promises) promise.then(resolve, reject);
      }),
    off: () => signal?.removeEventListener('abort', onAbort),
  };
}

/** Runs a loaded batch. Its features are written to `room`. Photos whose features differ in shape come in separate batches. */
export async function runBatch(
  extractor: Extractor,
  { items, memory, photos }: Pick<FeedBatch, 'items' | 'memory' | 'photos'>,
  setup: EmbedSetup,
  check?: BatchCheck,
  room?: readonly ArrayBuffer[],
): Promise<readonly EmbeddedBatch[]> {
  if (photos.length === 0) return [{ items, features: {} }];
  const compare = check?.begin(photos);
  if (memory.isUnlike) {
    const each = await runApart(extractor, memory, photos, setup);
    await compare?.(memory, stackPhotos(each));
    return groupAlike(items, each);
  }
  const features = await runPhotos(extractor, memory, photos, setup, room);
  await compare?.(memory, features);
  return [{ items, features }];
}

/**
 * Runs photos that are in memory.
 *
 * @param memory - It must not change until the run has settled.
 * @param photos - The places of the photos to run, at least one. The rows of the outputs are in this order.
 * @param room - Buffers of earlier outputs. They are moved away, and outputs may come in them.
 * @throws {@link TapirError} `OUTPUT_NOT_BATCHED` for photos of unlike features, too.
 */
export async function runPhotos(
  extractor: Extractor,
  memory: PhotoMemory,
  photos: readonly number[],
  setup: EmbedSetup,
  room?: readonly ArrayBuffer[],
): Promise<Record<string, Tensor>> {
  if (memory.isUnlike) return stackPhotos(await runApart(extractor, memory, photos, setup));
  const { feeds, take } = memory.run(photos);
  const results = await extractorInternals
    .of(extractor)
    .runRows(feeds, { signal: setup.signal, room, isKept: setup.isKept })
    .catch((error: unknown) => {
      throw withSizes(error, extractor, feeds);
    });
  const features: Record<string, Tensor> = {};
  for (const { name } of extractor.outputs) {
    features[name] = writtenFeatures(name, take(results[name]!), setup);
  }
  return features;
}

/** Runs photos that are in memory, each with features without the batch axis, as {@link runPhotosApart} gives them. */
export async function runApart(
  extractor: Extractor,
  memory: PhotoMemory,
  photos: readonly number[],
  setup: EmbedSetup,
): Promise<PhotoFeatures[]> {
  const each = await runPhotosApart(extractorInternals.of(extractor), memory, photos, setup.batch, setup);
  const written = ([key, tensor]: [string, Tensor]): [string, Tensor] => {
    const { dims, ...row } = writtenFeatures(key, { ...tensor, dims: [1, ...tensor.dims] }, setup);
    return [key, { ...row, dims: dims.slice(1) } as Tensor];
  };
  return each.map((features) => Object.fromEntries(Object.entries(features).map(written)));
}

/** A failed run, with the sizes that the file left to the transform. */
function withSizes(error: unknown, { inputs }: Extractor, feeds: readonly Feed[]): unknown {
  const isOpen = ({ dims }: TensorInfo): boolean =>
    dims?.slice(1).some((size) => typeof size !== 'number') !== false;
  const open = inputs.filter(isOpen);
  if (!isTapirError(error, 'RUN_FAILED') || open.length === 0) return error;
  const fed = open.map(({ name }) => {
    const feed = feeds.find((one) => one.name === name);
    return `"${name}" was fed [${feed?.dims.join(', ')}]`;
  });
  const advice = `${fed.join(' and ')}, of sizes that the file leaves open; if they are the reason, state others (transform, --transform)`;
  return new TapirError('RUN_FAILED', `${error.message}; ${advice}`, {
    details: error.details,
    cause: error,
  });
}
