/** What extractors have in common, on one device and on several. */
import type { Options } from '../base/checks.js';
import type { ImageNormalization } from '../onnx/graph/rewrite/image-input.js';
import type { FeatureInfo } from '../run/model/prune/feature-info.js';
import { Internals } from '../run/model/open/internals.js';
import type { EngineName, EnginePrecision, Precision } from '../run/runtime/capabilities/capabilities.js';
import { hidesNan, precisionOf, type PrunedModel } from '../run/model/prune/pruned-model.js';
import { findBroken } from '../onnx/tensor/read-feeds.js';
import { mismatch, type DType, type NamedTensor, type Tensor } from '../onnx/tensor/tensor.js';
import type { TensorInfo } from '../onnx/tensor/tensor-info.js';
import { ReplicaSet } from './replicas/replica-set.js';
import { readRunInput } from './replicas/read-run-input.js';
import type { RunInput, RunOptions } from './replicas/run-options.js';
import { PhotoEmbedder, type EmbedGiven, type EmbedPhotoOptions } from './replicas/photo-embedder.js';
import type { ImageSource } from '../photos/images/formats/image-source.js';

const EXPECTED = 'an extractor, as createFeatureExtractor or DataParallel.create gives it';

/** The runner of each extractor. */
export const extractorInternals: Internals<Pick<Extractor, 'model'>, ReplicaSet> = new Internals(
  'extractor',
  EXPECTED,
);

/**
 * A feature extractor, on one device ({@link FeatureExtractor}) or on several ({@link DataParallel}).
 *
 * `Key` are the names of its outputs; `Type` is their element type: `'float32'`, unless the option `outputDtype` says otherwise.
 */
export abstract class Extractor<Key extends string = string, Type extends DType = DType> {
  /** The model that it runs, to save or to inspect. */
  readonly model: PrunedModel;
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /** The outputs, in the order of the request. */
  readonly outputs: readonly FeatureInfo[];
  /** With `input: 'image-uint8'`, how the graph normalises pixels; else null. */
  readonly imageNormalization: ImageNormalization | null;
  /** The device in use, or the devices with commas between them; `'auto'` is resolved. */
  readonly device: string;
  /** The library that runs the model. */
  readonly engine: EngineName;
  /** How that library is called (option `binding`): `'c'` or `'node'`; null for an engine that is called in one way. */
  readonly binding: string | null;
  /** How it computes: `int8` if the file is in 8 bits, that of a model that {@link lowerPrecision} gave, else {@link floatPrecision}. */
  readonly precision: Precision;
  /** How the engine computes float32 operators: the option `precision`. Of a model in 8 bits, these are the rest. */
  readonly floatPrecision: EnginePrecision;
  /** The version of the engine. */
  readonly runtime: string;
  #embedder: PhotoEmbedder | undefined;

  /** Use {@link createFeatureExtractor}. */
  protected constructor(set: object) {
    if (!(set instanceof ReplicaSet))
      throw extractorInternals.refuse(set, 'new', 'left out: call createFeatureExtractor');
    extractorInternals.set(this, set);
    const { pruned, inputs, outputs, imageNormalization, lane } = set.model;
    this.model = pruned;
    this.inputs = inputs;
    this.outputs = outputs;
    this.imageNormalization = imageNormalization;
    this.device = set.replicas.map(({ device }) => device).join(', ');
    this.engine = lane.engine;
    this.binding = set.replicas[0]!.facts.binding?.name ?? null;
    this.floatPrecision = lane.precision;
    this.precision = precisionOf(pruned) ?? lane.precision;
    this.runtime = set.replicas[0]!.facts.runtime;
  }

  /** Runs the model on a batch. */
  abstract run(input: RunInput, given?: Options<RunOptions>): Promise<Record<Key, Tensor<Type>>>;

  /**
   * Embeds a photo, or photos in batches. The transform is that of {@link createFeatureExtractor}, else the one that {@link findTransform}
   * finds beside the model.
   *
   * @remarks For folders, and for photos of which some may be broken, use {@link embedImages} or {@link embedFolder}.
   * @param photo - {@link ImageSource}: a path, a URL (http and https are fetched), bytes, a Blob, a Response, a stream, or decoded pixels.
   * @param given - See {@link EmbedPhotoOptions}.
   * @returns The values of the only output, or of `output`, as float32: of `[N, 2048, 1, 1]`, 2048 numbers per photo. Of a list of
   * photos, a list of vectors in the same order. You own the buffers.
   * @throws {@link TapirError} the `IMAGE_*` code of a photo that cannot be read; `PHOTOS_FAILED` if several cannot, with a list of them
   * in `details`; `OPTION_INVALID`, also if the transform does not fit the model; those of `run`.
   *
   * @example
   * ```ts
   * import { createFeatureExtractor } from 'onnx-tapir';
   *
   * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
   * const vector = await extractor.embed('photos/cat.jpg'); // Float32Array(2048)
   * const [dog, fox] = await extractor.embed(['photos/dog.jpg', 'photos/fox.jpg']);
   * await extractor.close();
   * ```
   */
  embed(photo: ImageSource, ...given: EmbedGiven<Key>): Promise<Float32Array>;
  embed(photos: readonly ImageSource[], ...given: EmbedGiven<Key>): Promise<Float32Array[]>;
  async embed(
    photo: ImageSource | readonly ImageSource[],
    given: Options<EmbedPhotoOptions<Key>> = {},
  ): Promise<Float32Array | Float32Array[]> {
    const set = extractorInternals.of(this);
    // Threads that start after close would stay.
    set.checkOpen();
    this.#embedder ??= new PhotoEmbedder(set);
    if (isList(photo)) return this.#embedder.embed(photo, given);
    const [vector] = await this.#embedder.embed([photo], given);
    return vector!;
  }

  /** Waits for the runs in flight, and ends the sessions that nothing else uses. Idempotent. */
  async close(): Promise<void> {
    await Promise.all([extractorInternals.of(this).close(), this.#embedder?.close()]);
  }

  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function isList(photo: ImageSource | readonly ImageSource[]): photo is readonly ImageSource[] {
  return Array.isArray(photo);
}

/** Reads the feeds of a run. With fixed scales of 8 bits, NaN would become a number, and a broken row would look healthy. */
export function feedsOf(
  { inputs, model }: Pick<Extractor, 'inputs' | 'model'>,
  input: RunInput,
): NamedTensor[] {
  const feeds = readRunInput(inputs, input);
  const broken = hidesNan(model) ? findBroken(feeds) : undefined;
  if (!broken) return feeds;
  const expected = 'finite: the model rounds it to 8 bits, which hides other values';
  throw mismatch(broken.name, expected, 'NaN or infinity');
}

/** How many batches at once keep all sessions of an extractor busy. */
export function runsAtOnce(extractor: Extractor): number {
  return extractorInternals.of(extractor).runsAtOnce;
}

/** Whether an extractor runs on the CPU alone. */
export function isOnCpu(extractor: Extractor): boolean {
  return extractorInternals.of(extractor).isOnCpu;
}
