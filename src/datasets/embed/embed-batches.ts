/** Source items → features, batch by batch: decoding, the model and the consumer overlap. */
import { isTapirError, TapirError } from '../../base/errors.js';
import { coresToDecode, extractorInternals, runsAtOnce, type Extractor } from '../../extract/extractor.js';
import { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import type { SharedImages } from '../../tensor/image-feed.js';
import { takeRows } from '../../tensor/rows.js';
import { buffersOf, type Tensor } from '../../tensor/tensor.js';
import type { EmbedSetup } from './embed-options.js';
import { BatchLoader, type LoadedBatch, type LoadedItem } from './loader.js';
import type { TriedBatch } from '../records/tried-input.js';
import type { SourceItems } from '../sources/items/source-item.js';

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

/** Compares the features of a batch. The batch is yielded when the promise settles; until then, its pixels do not change. */
export type CompareBatch = (pixels: Uint8Array, features: Readonly<Record<string, Tensor>>) => Promise<void>;

/** Checks batches while their pixels are in memory. Its errors end the run. */
export interface BatchCheck {
  /**
   * Called for each batch before it runs, in the order of the batches.
   *
   * @param images - The places of its images in the pixels.
   * @returns undefined if this batch is not checked.
   */
  begin(images: readonly number[]): CompareBatch | undefined;
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
  const mostRuns = runsAtOnce(extractor);
  const loader = openLoader(source, lanes, extractor, setup, maxWaitMs);
  const running: Promise<EmbeddedBatch>[] = [];
  /** The buffers of each batch that was released. */
  const released: ArrayBuffer[][] = [];
  const stop = stopOf(signal);
  try {
    const load = (): Promise<LoadedBatch | LoadFailure | undefined> =>
      loader.next().catch((error: unknown) => new LoadFailure(error));
    let loading = load();
    let isLast = false;
    let failure: LoadFailure | undefined;
    while (!isLast || running.length > 0) {
      const done = running[0]?.then(() => 'done' as const);
      const loaded = isLast || running.length >= mostRuns ? [] : [loading];
      const event = await stop.orFirst<'done' | LoadedBatch | LoadFailure | undefined>([
        ...(done ? [done] : []),
        ...loaded,
      ]);
      if (event === 'done') {
        const batch = await running.shift()!;
        yield { ...batch, release: () => void released.push(buffersOf(Object.values(batch.features))) };
      } else if (event === undefined) isLast = true;
      else if (event instanceof LoadFailure) {
        // Batches that were loaded before are not lost.
        isLast = true;
        failure = event;
      } else {
        const run = runBatch(extractor, event, setup, check, released.pop()).finally(() =>
          loader.release(event.pixels),
        );
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

/** The number of threads that decode for an extractor. */
export function decodeThreadsOf(extractor: Extractor, { decodeThreads }: EmbedSetup): number {
  return decodeThreads || coresToDecode(extractor);
}

/** Opens the threads that decode for an extractor, or takes `warm` ones, of the same transform and checksum. */
export function openDecodeLanes(
  extractor: Extractor,
  setup: EmbedSetup,
  warm: DecodeLanes = new DecodeLanes(setup.transform, 1, setup),
): DecodeLanes {
  // A defect of the caller: running threads cannot change it.
  if (warm.checksum !== setup.checksum) throw new Error('warm decoding threads differ in checksum');
  warm.most = decodeThreadsOf(extractor, setup);
  return warm;
}

/** Opens a loader that keeps enough batches ahead for the devices to stay busy. */
export function openLoader(
  source: SourceItems,
  lanes: DecodeLanes,
  extractor: Extractor,
  { batch, input }: EmbedSetup,
  maxWaitMs?: number,
): BatchLoader {
  const images = Math.max(IMAGES_AHEAD, IMAGES_AHEAD_PER_THREAD * lanes.most);
  const ahead = Math.max(2, Math.ceil(images / batch));
  return new BatchLoader(source, lanes, {
    batch,
    imageBytes: input.imageBytes,
    openBatches: runsAtOnce(extractor) + ahead,
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

/** Runs a loaded batch. `room` are buffers for its features. */
export async function runBatch(
  extractor: Extractor,
  { items, pixels }: LoadedBatch,
  setup: EmbedSetup,
  check?: BatchCheck,
  room?: readonly ArrayBuffer[],
): Promise<EmbeddedBatch> {
  const images = items.flatMap(({ error }, place) => (error ? [] : [place]));
  if (images.length === 0) return { items, features: {} };
  const compare = check?.begin(images);
  const features = await runImages(extractor, pixels, images, setup, room);
  await compare?.(pixels, features);
  return { items, features };
}

/**
 * Runs images that are in memory.
 *
 * @param pixels - Images one after the other. They must not change until the run has settled.
 * @param images - Indices of the images to run, at least one. The rows of the outputs are in this order.
 * @param room - Buffers of earlier outputs. They are moved away, and outputs may come in them.
 */
export async function runImages(
  extractor: Extractor,
  pixels: Uint8Array,
  images: readonly number[],
  setup: EmbedSetup,
  room?: readonly ArrayBuffer[],
): Promise<Record<string, Tensor>> {
  const { signal, input } = setup;
  const { axes, multiple } = input;
  const rows = multiple === null ? images.length : Math.ceil(images.length / multiple) * multiple;
  const feed: SharedImages = { ...input.feed, dims: [rows, ...axes], pixels, images };
  const results = await extractorInternals
    .of(extractor)
    .runWhole(feed, signal, room)
    .catch((error: unknown) => {
      throw withSizes(error, extractor, feed.dims);
    });
  const features: Record<string, Tensor> = {};
  for (const { name } of extractor.outputs) {
    const tensor = results[name]!;
    if (tensor.dims[0] !== rows) {
      throw new TapirError(
        'OUTPUT_NOT_BATCHED',
        `output "${name}" has dims [${tensor.dims.join(', ')}] for ${rows} images, so it has no row per image; ask for another tensor`,
        { details: { output: name, dims: tensor.dims, rows } },
      );
    }
    const kept = rows === images.length ? tensor : takeRows(tensor, 0, images.length);
    features[name] = { ...kept, dims: writtenDims(kept.dims, setup) };
  }
  return features;
}

/** A failed run, with the sizes that the file left to the transform. */
function withSizes(error: unknown, { inputs }: Extractor, dims: readonly number[]): unknown {
  const [input] = inputs;
  const isOpen = input?.dims?.slice(1).some((size) => typeof size !== 'number') !== false;
  if (!isTapirError(error, 'RUN_FAILED') || !input || !isOpen) return error;
  const advice = `"${input.name}" was fed [${dims.join(', ')}], of sizes that the file leaves open; if they are the reason, state others (transform, --transform)`;
  return new TapirError('RUN_FAILED', `${error.message}; ${advice}`, {
    details: error.details,
    cause: error,
  });
}

/** The dims that are returned and written: `[N, C, 1, 1]` becomes `[N, C]`, unless `keepDims` is set. */
export function writtenDims<Size>(dims: readonly Size[], { keepDims }: EmbedSetup): readonly Size[] {
  const [, , height, width] = dims;
  return !keepDims && dims.length === 4 && height === 1 && width === 1 ? dims.slice(0, 2) : dims;
}
