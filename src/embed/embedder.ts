/** Many images → features: batches cut by position, two of them in flight per session, results in input order. */
import {
  checkBoolean,
  checkInteger,
  checkSignal,
  invalidOption,
  withDefaults,
  type Given,
} from '../checks.js';
import { TapirError } from '../errors.js';
import {
  coresToDecode,
  isOnCpu,
  runsAtOnce,
  runWhole,
  wantsFullBatches,
  type Extractor,
} from '../extract/extractor.js';
import { DecodeLanes } from '../image/decode-lanes.js';
import type { TransformPreset } from '../image/presets.js';
import { createTransform, Transform, valuesOf } from '../image/transform.js';
import type { SharedImages } from '../runtime/image-feed.js';
import { takeRows } from '../runtime/rows.js';
import type { Tensor } from '../runtime/tensor.js';
import { BatchLoader, type ImageError, type LoadedBatch, type LoadedItem } from './loader.js';
import { listImages, type SourceItem } from './source.js';

/** Options of {@link embedImages}. */
export interface EmbedOptions {
  /**
   * Preprocessing: a preset's name, or from {@link createTransform}. Its size must be the model's.
   * @default 'ImageNet1K_V1'
   */
  readonly transform: Transform | TransformPreset;
  /**
   * Images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly batch: number;
  /**
   * Keep trailing 1×1 spatial dims: `[2048, 1, 1]` instead of `[2048]`.
   * @default false
   */
  readonly keepDims: boolean;
  /**
   * Threads that decode images, an integer from 0 to 1024; 0 takes the cores that the devices leave free. More than
   * UV_THREADPOOL_SIZE (4, unless the environment says otherwise when Node.js starts) are of no use: the `tapir` command sets it.
   * @default 0
   */
  readonly decodeThreads: number;
  /**
   * Stops the work when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const EMBED_DEFAULTS: EmbedOptions = {
  transform: 'ImageNet1K_V1',
  batch: 0,
  keepDims: false,
  decodeThreads: 0,
  signal: undefined,
};

/** Images to embed: a folder (searched recursively), or paths and file contents in any iterable. */
export type EmbedSource = string | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/** An image's features, or why there are none. */
export type Embedded<Key extends string = string> =
  | {
      /** Position in the source, from 0. */
      readonly index: number;
      /** Path as the source gave it, relative for a folder; null for bytes. */
      readonly path: string | null;
      /** One tensor per output, without the batch axis. */
      readonly features: Record<Key, Tensor>;
      readonly error?: undefined;
    }
  | {
      readonly index: number;
      readonly path: string | null;
      readonly features?: undefined;
      readonly error: ImageError;
    };

/** The images of one run: the items in order, and a row per item that could be read. */
export interface EmbeddedBatch {
  readonly items: readonly LoadedItem[];
  /** Outputs by key, first axis = items without an error, in order; empty if there is none. */
  readonly features: Readonly<Record<string, Tensor>>;
}

/** Checked options, and what follows from them and the model. */
export interface EmbedSetup {
  readonly transform: Transform;
  readonly batch: number;
  readonly keepDims: boolean;
  readonly decodeThreads: number;
  readonly signal: AbortSignal | undefined;
  /** Runs are filled up to a multiple of it: rows that the graph was exported for, or all of a batch on a GPU; else null. */
  readonly multiple: number | null;
  /** Whether the graph takes pixels `[N, H, W, 3]` and normalises them itself. */
  readonly takesPixels: boolean;
  readonly height: number;
  readonly width: number;
}

const CHANNELS = 3;

/** Checks options against the extractor. Throws `OPTION_INVALID`. */
export function setUpEmbedding(extractor: Extractor, options: EmbedOptions): EmbedSetup {
  const transform =
    options.transform instanceof Transform ? options.transform : createTransform(options.transform);
  const batch = checkInteger('batch', options.batch, 0, 4096) || (isOnCpu(extractor) ? 8 : 32);
  const { keepDims, decodeThreads } = options;
  checkBoolean('keepDims', keepDims);
  checkInteger('decodeThreads', decodeThreads, 0, 1024);
  const signal = checkSignal(options.signal);
  const [input, ...others] = extractor.inputs;
  const size = transform.outputSize;
  if (size === null)
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  const dims = input?.dims;
  const dtype = input?.dtype ?? 'float32';
  if (!input || others.length > 0 || dims?.length !== 4 || (dtype !== 'float32' && dtype !== 'uint8')) {
    const what = extractor.inputs.map(
      (other) => `${other.name} ${other.dtype} [${other.dims?.join(', ') ?? '?'}]`,
    );
    throw invalidOption(
      'model',
      'one with a single image input, [N, 3, H, W] float32 or [N, H, W, 3] uint8',
      what.join('; '),
    );
  }
  const takesPixels = dtype === 'uint8';
  const wanted = takesPixels ? [size.height, size.width, CHANNELS] : [CHANNELS, size.height, size.width];
  const differs = wanted.some(
    (length, axis) => typeof dims[axis + 1] === 'number' && dims[axis + 1] !== length,
  );
  if (differs) {
    const expected = `one that fits the model's input "${input.name}" [${dims.join(', ')}] (on the command line: --transform)`;
    throw invalidOption('transform', expected, `images of [${wanted.join(', ')}]`);
  }
  if (takesPixels) checkNormalization(extractor, transform);
  const full = wantsFullBatches(extractor) ? batch : null;
  const multiple = typeof dims[0] === 'number' ? dims[0] : full;
  return { transform, batch, keepDims, decodeThreads, signal, multiple, takesPixels, ...size };
}

/** What the graph computes must be what the transform says: the manifest records the transform. */
function checkNormalization({ imageNormalization: inGraph }: Extractor, transform: Transform): void {
  if (!inGraph) return; // The model's own affair.
  const { mean, std } = transform.options;
  const isSame =
    mean.every((value, i) => value === inGraph.mean[i]) && std.every((value, i) => value === inGraph.std[i]);
  if (isSame) return;
  const text = (values: readonly number[]): string => `[${values.join(', ')}]`;
  throw invalidOption(
    'transform',
    `one whose mean and std the graph applies: ${text(inGraph.mean)}, ${text(inGraph.std)} (create the extractor with input: { type: 'image-uint8', mean, std })`,
    `${text(mean)}, ${text(std)}`,
  );
}

/** Batches that are decoded ahead, for each that may be running: at least two, and enough to hide a slow image. */
const IMAGES_AHEAD = 64;

/** Runs the images of a source batch by batch. A batch is a range of positions; an image that fails leaves a gap. */
export async function* embedBatches(
  extractor: Extractor,
  source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
  setup: EmbedSetup,
): AsyncGenerator<EmbeddedBatch> {
  const { transform, batch, signal, height, width } = setup;
  const mostRuns = runsAtOnce(extractor);
  const lanes = new DecodeLanes(transform, setup.decodeThreads || coresToDecode(extractor));
  const loader = new BatchLoader(source, lanes, {
    batch,
    imageBytes: CHANNELS * height * width,
    openBatches: mostRuns + Math.max(2, Math.ceil(IMAGES_AHEAD / batch)),
  });
  const running: Promise<EmbeddedBatch>[] = [];
  const stop = rejectionOf(signal);
  try {
    let loading = loader.next();
    let isLast = false;
    while (!isLast || running.length > 0) {
      const done = running[0]?.then(() => 'done' as const);
      const loaded = isLast || running.length >= mostRuns ? [] : [loading];
      const event = await Promise.race([...(done ? [done] : []), ...loaded, stop.promise]);
      if (event === 'done') yield await running.shift()!;
      else if (event === undefined) isLast = true;
      else {
        const run = runBatch(extractor, event, setup).finally(() => loader.release(event.pixels));
        // Awaited in order; until then a failure must not count as unhandled.
        run.catch(() => undefined);
        running.push(run);
        loading = loader.next();
        loading.catch(() => undefined);
      }
    }
  } finally {
    stop.off();
    loader.stop();
    await lanes.close();
  }
}

/** A promise that is rejected when a signal fires, and never fulfilled. */
function rejectionOf(signal: AbortSignal | undefined): { readonly promise: Promise<never>; off(): void } {
  let onAbort = (): void => undefined;
  const promise = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal!.reason as Error);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
  });
  promise.catch(() => undefined);
  return { promise, off: () => signal?.removeEventListener('abort', onAbort) };
}

async function runBatch(
  extractor: Extractor,
  { items, pixels }: LoadedBatch,
  setup: EmbedSetup,
): Promise<EmbeddedBatch> {
  const images = items.flatMap(({ error }, place) => (error ? [] : [place]));
  if (images.length === 0) return { items, features: {} };
  const { multiple, signal, takesPixels, height, width, transform } = setup;
  const rows = multiple === null ? images.length : Math.ceil(images.length / multiple) * multiple;
  const feed: SharedImages = {
    name: extractor.inputs[0]!.name,
    pixels,
    images,
    ...(takesPixels
      ? { dtype: 'uint8', dims: [rows, height, width, CHANNELS], values: null }
      : { dtype: 'float32', dims: [rows, CHANNELS, height, width], values: valuesOf(transform) }),
  };
  const results = await runWhole(extractor, feed, signal);
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
    features[name] = setup.keepDims ? kept : dropUnitMap(kept);
  }
  return { items, features };
}

/** `[N, C, 1, 1]` → `[N, C]`. */
function dropUnitMap(tensor: Tensor): Tensor {
  const [rows, channels, height, width, ...more] = tensor.dims;
  if (height !== 1 || width !== 1 || more.length > 0) return tensor;
  return { ...tensor, dims: [rows!, channels!] };
}

/** The items of a source: a folder's images, or what an iterable gives. Throws `OPTION_INVALID`. */
export function itemsOf(source: EmbedSource): AsyncIterable<SourceItem> {
  if (typeof source === 'string') return listImages(source);
  if (
    source === null ||
    typeof source !== 'object' ||
    !(Symbol.iterator in source || Symbol.asyncIterator in source)
  ) {
    throw invalidOption('source', 'a folder, or an iterable of paths or bytes', source);
  }
  if (source instanceof Uint8Array)
    throw invalidOption('source', 'an iterable: put a single image in a list', source);
  return readIterable(source);
}

async function* readIterable(source: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<SourceItem> {
  for await (const image of source) {
    if (image instanceof Uint8Array) yield { path: null, image };
    else if (typeof image === 'string' && image !== '') yield { path: image, image };
    else throw invalidOption('source', 'made of paths or bytes', image);
  }
}

/**
 * Embeds images one after the other, in input order; decoding, preprocessing and the model overlap.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - A folder (searched recursively, in the order of the paths' bytes), or paths or file contents.
 * @param given - See {@link EmbedOptions}.
 * @returns An iterator over `{ index, path, features }`, or `{ index, path, error }` for an image that cannot be read; each
 * feature has its model's dims without the batch axis, in a buffer of its own.
 * @throws {@link TapirError} `OPTION_INVALID` if the transform does not fit the model; `SOURCE_INVALID`; those of `run`.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, embedImages } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * for await (const { path, features, error } of embedImages(extractor, 'photos')) {
 *   console.log(path, error ? error.code : features.embedding.dims); // 'cat.jpg' [2048]
 * }
 * await extractor.close();
 * ```
 */
export async function* embedImages<Key extends string>(
  extractor: Extractor<Key>,
  source: EmbedSource,
  given: Given<EmbedOptions> = {},
): AsyncGenerator<Embedded<Key>> {
  const setup = setUpEmbedding(extractor, withDefaults(EMBED_DEFAULTS, given, 'embedImages'));
  for await (const { items, features } of embedBatches(extractor, itemsOf(source), setup)) {
    let row = 0;
    for (const { index, path, error } of items) {
      if (error) yield { index, path, error };
      else {
        const entries = Object.entries(features).map(([key, tensor]) => [key, copyRow(tensor, row)]);
        row++;
        // Exactly the extractor's keys.
        yield { index, path, features: Object.fromEntries(entries) as Record<Key, Tensor> };
      }
    }
  }
}

/** One row without its batch axis, in a buffer of its own: a view would keep the whole batch alive. */
function copyRow(tensor: Tensor, row: number): Tensor {
  const { dtype, dims, data } = takeRows(tensor, row, 1);
  return { dtype, dims: dims.slice(1), data: data.slice() };
}
