/** Many images → features: batches cut by position, two of them in flight per session, results in input order. */
import { availableParallelism } from 'node:os';
import {
  checkBoolean,
  checkInteger,
  checkSignal,
  invalidOption,
  withDefaults,
  type Given,
} from '../checks.js';
import { TapirError } from '../errors.js';
import { isOnCpu, runsAtOnce, runWhole, wantsFullBatches, type Extractor } from '../extract/extractor.js';
import type { RgbImage } from '../image/resample.js';
import type { TransformPreset } from '../image/presets.js';
import { createTransform, Transform } from '../image/transform.js';
import { takeRows } from '../runtime/rows.js';
import type { Tensor } from '../runtime/tensor.js';
import { loadItems, type ImageError, type LoadedItem } from './loader.js';
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
   * Stops the work when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const EMBED_DEFAULTS: EmbedOptions = {
  transform: 'ImageNet1K_V1',
  batch: 0,
  keepDims: false,
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
  checkBoolean('keepDims', options.keepDims);
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
  return { transform, batch, keepDims: options.keepDims, signal, multiple, takesPixels, ...size };
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

/** Runs the images of a source batch by batch. A batch is a range of positions; an image that fails leaves a gap. */
export async function* embedBatches(
  extractor: Extractor,
  source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
  setup: EmbedSetup,
): AsyncGenerator<EmbeddedBatch> {
  const inFlight: Promise<EmbeddedBatch>[] = [];
  const submit = (items: LoadedItem[]): void => {
    const run = runBatch(extractor, items, setup);
    // Awaited in order below; until then a failure must not count as unhandled.
    run.catch(() => undefined);
    inFlight.push(run);
  };
  let items: LoadedItem[] = [];
  // One more than there are cores, so that one reads its file while the others decode.
  const atOnce = availableParallelism() + 1;
  const mostRuns = runsAtOnce(extractor);
  for await (const item of loadItems(source, setup.transform, setup.batch + atOnce, atOnce)) {
    setup.signal?.throwIfAborted();
    items.push(item);
    if (items.length < setup.batch) continue;
    submit(items);
    items = [];
    if (inFlight.length >= mostRuns) yield await inFlight.shift()!;
  }
  if (items.length > 0) submit(items);
  while (inFlight.length > 0) yield await inFlight.shift()!;
}

async function runBatch(
  extractor: Extractor,
  items: LoadedItem[],
  setup: EmbedSetup,
): Promise<EmbeddedBatch> {
  const images = items.flatMap((item) => item.pixels ?? []);
  const done = items.map((item) => ({ ...item, pixels: null }));
  if (images.length === 0) return { items: done, features: {} };
  const { multiple, signal } = setup;
  const rows = multiple === null ? images.length : Math.ceil(images.length / multiple) * multiple;
  const batch = fillBatch(images, rows, setup);
  const results = await runWhole(extractor, batch, { transfer: true, signal });
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
  return { items: done, features };
}

/** The images of a run in one tensor; rows beyond them are zero. */
function fillBatch(
  images: readonly RgbImage[],
  rows: number,
  { height, width, transform, takesPixels }: EmbedSetup,
): Tensor {
  const imageElements = CHANNELS * height * width;
  if (takesPixels) {
    const data = new Uint8Array(rows * imageElements);
    images.forEach((image, i) => data.set(image.data, i * imageElements));
    return { dtype: 'uint8', dims: [rows, height, width, CHANNELS], data };
  }
  const data = new Float32Array(rows * imageElements);
  images.forEach((image, i) => transform.normalizeInto(image, data, i * imageElements));
  return { dtype: 'float32', dims: [rows, CHANNELS, height, width], data };
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
