/** Photos → batches of tensors, for what takes tensors. */
import { availableParallelism } from 'node:os';
import { checkFields, integer, type Fields } from '../../base/options.js';
import { loadTensors } from '../../photos/feeds/open-feeds.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import { planPictures } from '../../photos/feeds/plan-feeds.js';
import type { ImageError } from '../../photos/images/file/image-errors.js';
import type { BatchSource } from '../../extract/replicas/batch-pieces.js';
import type { RunInput } from '../../extract/replicas/run-options.js';
import { TRANSFORM_FIELDS, type TransformChoice } from '../../photos/feeds/choose-transform.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import { type OnnxModel } from '../../run/model/open/open-model.js';
import { SOURCE_FIELDS, type SourceOptions } from '../../photos/feeds/items/source-options.js';
import { openSource, type EmbedSource, type ListedImage } from '../sources/open-source.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';

/** Batches of tensors, or photos as for `embedImages`. */
export type LearnSource = BatchSource | EmbedSource;

/** How photos become batches. */
export interface PhotoOptions extends SourceOptions, TransformChoice {
  /**
   * Photos per batch, an integer from 1 to 4096. Photos that cannot be read leave their batch smaller.
   * @default 32
   */
  readonly batch: number;
  /**
   * Threads that decode photos, an integer from 0 to 1024; 0 uses all cores.
   * @default 0
   */
  readonly decodeThreads: number;
}

export const PHOTO_FIELDS: Fields<PhotoOptions> = {
  ...SOURCE_FIELDS,
  ...TRANSFORM_FIELDS,
  batch: integer(1, 4096, 32, 'photos per batch'),
  decodeThreads: integer(0, 1024, 0, 'threads that decode photos; 0 for all cores'),
};

/** A photo that could not be read. */
export interface PhotoFailure {
  /** The path as the source has it; null for bytes and streams. */
  readonly path: string | null;
  readonly error: ImageError;
}

/** Batches of a source, and the photos that could not be read so far. */
export interface OpenedBatches {
  readonly batches: BatchSource;
  readonly failures: readonly PhotoFailure[];
}

/** Opens a source of tensors or of photos. Throws `OPTION_INVALID`, also if the transform does not fit the model; `SOURCE_INVALID`. */
export async function openBatches(
  model: OnnxModel,
  source: LearnSource,
  options: PhotoOptions,
  signal: AbortSignal | undefined,
): Promise<OpenedBatches> {
  const { batch, decodeThreads, ...reading } = checkFields(PHOTO_FIELDS, options);
  const threads = decodeThreads || availableParallelism();
  const given = await lookAt(source);
  if (given.areTensors) return { batches: given.source as BatchSource, failures: [] };
  const transform = chooseModelTransform(reading.transform, model);
  const plan = planPictures({ inputs: model.inputs, imageNormalization: null }, transform, {
    cropRows: 'each',
  });
  const items = openSource(given.source as EmbedSource, reading, signal);
  const failures: PhotoFailure[] = [];
  async function* batches(): AsyncGenerator<Record<string, NamedTensor>> {
    await using lanes = new DecodeLanes(transform, threads);
    for await (const { input, items: loaded } of loadTensors(items, plan, lanes, batch)) {
      for (const { path, error } of loaded) if (error) failures.push({ path, error });
      yield input;
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
