/** Data to measure norms on: photos → batches of tensors, or batches as they are given. */
import { availableParallelism } from 'node:os';
import { checkFields } from '../../../base/options.js';
import {
  PHOTO_BATCH_FIELDS,
  type LearnSource,
  type PhotoBatchOptions,
  type PhotoFailure,
} from '../../../datasets/embed/photo-batches.js';
import { openSource, type EmbedSource, type ListedImage } from '../../../datasets/sources/open-source.js';
import type { BatchSource } from '../../../extract/replicas/batch-pieces.js';
import type { RunInput } from '../../../extract/replicas/run-options.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';
import { chooseModelTransform } from '../../../photos/feeds/model-transform.js';
import { openPhotos } from '../../../photos/feeds/open-photos.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import { DecodeLanes } from '../../../photos/images/lanes/decode-lanes.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';

/** Batches of a source, and the photos that could not be read so far. */
export interface OpenedBatches {
  readonly batches: BatchSource;
  readonly failures: readonly PhotoFailure[];
}

/** Opens a source of tensors or of photos. Throws `OPTION_INVALID`, also if the transform does not fit the model; `SOURCE_INVALID`. */
export async function openBatches(
  model: OnnxModel,
  source: LearnSource,
  options: PhotoBatchOptions,
  signal: AbortSignal | undefined,
): Promise<OpenedBatches> {
  const {
    batch,
    decodeThreads,
    tiles: _tiles,
    clips: _clips,
    ...reading
  } = checkFields(PHOTO_BATCH_FIELDS, options);
  const given = await lookAt(source);
  if (given.areTensors) return { batches: given.source as BatchSource, failures: [] };
  const transform = chooseModelTransform(reading.transform, model);
  const plan = planFeeds(model, transform, { takes: 'one size', cropRows: 'each' });
  const items = openSource(given.source as EmbedSource, reading, signal);
  const failures: PhotoFailure[] = [];
  async function* batches(): AsyncGenerator<Record<string, NamedTensor>> {
    await using lanes = new DecodeLanes(transform, decodeThreads || availableParallelism());
    for await (const { items: loaded, take } of openPhotos(items, plan, lanes, { batch })) {
      for (const { path, error } of loaded) if (error) failures.push({ path, error });
      yield take();
    }
  }
  return { batches: batches(), failures };
}

/** Tells tensors from photos by the first item. */
async function lookAt(
  source: LearnSource,
): Promise<{ readonly source: LearnSource; readonly areTensors: boolean }> {
  const isIterable =
    typeof source === 'object' &&
    source !== null &&
    !('paths' in source) &&
    (Symbol.asyncIterator in source || Symbol.iterator in source);
  if (!isIterable || ArrayBuffer.isView(source)) {
    // A single tensor gets its message from what takes tensors.
    return { source, areTensors: typeof source === 'object' && source !== null && isTensor(source) };
  }
  if (Array.isArray(source)) return { source, areTensors: source.length === 0 || isBatch(source[0]) };
  const items = source as Iterable<unknown> | AsyncIterable<unknown>;
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const first = await iterator.next();
  async function* again(): AsyncGenerator<unknown> {
    try {
      for (let next = first; next.done !== true; next = await iterator.next()) yield next.value;
    } finally {
      await iterator.return?.();
    }
  }
  const isEmpty = first.done === true;
  return {
    source: again() as AsyncGenerator<RunInput | ListedImage> as LearnSource,
    areTensors: isEmpty || isBatch(first.value),
  };
}

function isTensor(value: object): boolean {
  return 'dims' in value && 'data' in value;
}

/** A tensor, or a list or record of tensors. */
function isBatch(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  if (isTensor(value)) return true;
  return Object.values(value).some(
    (item) => typeof item === 'object' && item !== null && isTensor(item as object),
  );
}
