/** Photos → vectors, in one call: what `embed` of an extractor does. */
import { checkInteger, invalidOption, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import type { RequestHeaders } from '../../base/http/request-headers.js';
import { optional, readOptions, signal, text, type Fields } from '../../base/options.js';
import type { FeedBatch } from '../../photos/feeds/feed-batches.js';
import { openPhotos } from '../../photos/feeds/open-photos.js';
import { itemOfImage } from '../../photos/feeds/items/item-of-image.js';
import { FETCHED, SOURCE_FIELDS } from '../../photos/feeds/items/source-options.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import { WINDOW_BATCHES, type FeedPlan } from '../../photos/feeds/feed-plan.js';
import { planFeeds } from '../../photos/feeds/plan-feeds.js';
import type { ImageError } from '../../photos/images/file/image-errors.js';
import type { ImageSource } from '../../photos/images/formats/image-source.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { unitVector } from '../../onnx/tensor/vectors/unit-vector.js';
import { floatsOf } from '../../onnx/tensor/widen.js';
import { mapInOrder } from '../../base/map-in-order.js';
import type { ReplicaSet } from './replica-set.js';
import { runPhotosApart } from './run-photos.js';

/** Options of {@link Extractor.embed}. */
export interface EmbedPhotoOptions<Key extends string = string> {
  /**
   * The output whose values are the vector; to be given where there are several.
   * @default the only output
   */
  readonly output: Key | undefined;
  /**
   * Headers of each request for a URL, such as `{ authorization: 'Bearer …' }`: the URL's own server gets them, and no other one that it redirects to.
   * @default undefined
   */
  readonly headers: RequestHeaders | undefined;
  /**
   * Cuts the vector to its first elements, so many, and divides it by its Euclidean norm: for models that were trained for it (Matryoshka).
   * @default undefined
   */
  readonly dims: number | undefined;
  /**
   * Stops the work when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

const FIELDS: Fields<EmbedPhotoOptions> = {
  output: optional(text('')),
  headers: SOURCE_FIELDS.headers,
  dims: optional((option, value) => checkInteger(option, value, 1, 2 ** 31 - 1)),
  signal,
};

/** Options of `embed`: with `output` where the type says that there are several. */
export type EmbedGiven<Key extends string> = string extends Key
  ? [given?: Options<EmbedPhotoOptions<Key>>]
  : IsOne<Key> extends true
    ? [given?: Options<EmbedPhotoOptions<Key>>]
    : [given: Options<EmbedPhotoOptions<Key>> & { readonly output: Key }];

/** Whether a type is one word, and not several. */
type IsOne<Key, All = Key> = [Key] extends [never]
  ? true
  : (Key extends Key ? ([All] extends [Key] ? true : false) : never) extends true
    ? true
    : false;

/** A photo that failed, by its place in the call. */
interface Failure {
  readonly index: number;
  readonly error: ImageError;
}

/** Of many failures, the message has these; `details` has all. */
const MOST_LINES = 5;

/** Embeds photos for one extractor. Its decoding threads start at the first photo; idle ones do not keep the process alive. */
export class PhotoEmbedder {
  readonly #set: ReplicaSet;
  readonly #plan: FeedPlan;
  readonly #lanes: DecodeLanes;

  /** Throws `OPTION_INVALID` if the transform does not fit the model. */
  constructor(set: ReplicaSet) {
    const { model } = set;
    const { source } = model.pruned;
    const transform = chooseModelTransform('auto', source, model.transform, model.inputs);
    this.#set = set;
    this.#plan = planFeeds(model, transform);
    this.#lanes = new DecodeLanes(transform, set.coresToDecode);
  }

  /** The vectors of photos, in order. */
  async embed(photos: readonly ImageSource[], given: Options<EmbedPhotoOptions>): Promise<Float32Array[]> {
    const options = readOptions(FIELDS, given, 'embed');
    const output = this.#outputOf(options.output);
    options.signal?.throwIfAborted();
    const reading = { ...FETCHED, headers: options.headers, signal: options.signal };
    const items = photos.map((photo) => itemOfImage(photo, reading, 'photo'));
    const { runsAtOnce, photosPerRun } = this.#set;
    // Photos of unlike shape are sorted: several batches are loaded together.
    const together = this.#plan.unlike ? WINDOW_BATCHES * photosPerRun : photosPerRun;
    const batch = Math.min(together, Math.max(1, items.length));
    const loaded = openPhotos(items, this.#plan, this.#lanes, { batch, openBatches: runsAtOnce + 2 });
    const failures: Failure[] = [];
    const vectors: Float32Array[] = [];
    const run = (one: FeedBatch): Promise<Float32Array[]> => this.#run(one, output, options.signal, failures);
    const { dims } = options;
    for await (const some of mapInOrder(loaded, runsAtOnce, run))
      vectors.push(...(dims === undefined ? some : some.map((vector) => cutVector(output, vector, dims))));
    if (failures.length > 0) throw failureOf(failures, photos.length);
    return vectors;
  }

  /** Ends its threads. */
  close(): Promise<void> {
    return this.#lanes.close();
  }

  async #run(
    { items, memory, photos, release }: FeedBatch,
    output: string,
    stop: AbortSignal | undefined,
    failures: Failure[],
  ): Promise<Float32Array[]> {
    try {
      for (const { index, error } of items) if (error) failures.push({ index, error });
      if (photos.length === 0) return [];
      const each = await runPhotosApart(this.#set, memory, photos, this.#set.photosPerRun, { signal: stop });
      return each.map((features) => copyFloats(output, features[output]!));
    } finally {
      release();
    }
  }

  #outputOf(given: string | undefined): string {
    const names = this.#set.model.outputs.map(({ name }) => name);
    const name = given ?? names[0]!;
    if (names.includes(name) && (given !== undefined || names.length === 1)) return name;
    const expected = given === undefined ? 'given, as there are several outputs: one' : 'one';
    throw invalidOption('output', `${expected} of "${names.join('", "')}"`, given);
  }
}

function cutVector(output: string, vector: Float32Array, dims: number): Float32Array {
  if (dims <= vector.length) return unitVector(vector.subarray(0, dims));
  throw invalidOption('dims', `at most ${vector.length}, the length of "${output}"`, dims);
}

/** A view would keep the whole batch in memory. */
function copyFloats(output: string, tensor: Tensor): Float32Array {
  const floats = /float|double/.test(tensor.dtype) ? floatsOf(tensor) : undefined;
  if (!floats)
    throw invalidOption(
      'output',
      `an output of floats: ${output} has ${tensor.dtype}, which run gives`,
      output,
    );
  return floats === tensor.data ? floats.slice() : floats;
}

/** A photo that fails alone rejects with its own error. */
function failureOf(failures: readonly Failure[], photos: number): TapirError {
  const [first, second] = failures;
  if (!second) return first!.error;
  const listed = failures.map(({ index, error: { code, message } }) => ({ index, code, message }));
  const lines = listed
    .slice(0, MOST_LINES)
    .map(({ index, code, message }) => `photo ${index}: ${message} [${code}]`);
  const rest = listed.length - lines.length;
  const message = [
    `${listed.length} of ${photos} photos cannot be read; embedImages continues after each of them`,
    ...lines,
    ...(rest > 0 ? [`and ${rest} more`] : []),
  ].join('\n');
  const errors = failures.map(({ error }) => error);
  return new TapirError('PHOTOS_FAILED', message, {
    details: { failures: listed },
    cause: errors[0],
    errors,
  });
}
