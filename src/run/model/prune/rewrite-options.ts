/** Options of a cut besides names: other inputs, a dynamic batch, parts to add to the graph. */
import { invalidOption, show } from '../../../base/checks.js';
import { boolean, oneOf, optional, unchecked, type Field, type Fields } from '../../../base/options.js';
import { IMAGENET_MEAN, IMAGENET_STD } from '../../../base/imagenet.js';
import type { FeatureParts, Pool } from '../../../onnx/graph/rewrite/feature-parts.js';
import { readInputSizes, type CheckedSizes, type InputSizes } from '../open/input-sizes.js';
import { checkNames } from '../open/return-nodes.js';
import type { ImageNormalization } from '../../../onnx/graph/rewrite/image-input.js';
import type { PhotoFront } from '../../../onnx/graph/rewrite/photo-input.js';
import type { TokenPart } from '../../../onnx/graph/token-parts.js';

export type { Pool } from '../../../onnx/graph/rewrite/feature-parts.js';

/** The element type of an output: unchanged, or converted by a Cast. */
export type OutputDtype = 'keep' | 'float32' | 'float16';

/** One value for all outputs, or values by output key. Outputs without a value have the default. */
export type PerOutput<Item> = Item | Readonly<Record<string, Item>> | ReadonlyMap<string, Item>;

/** An image input: the graph takes uint8 pixels `[N, H, W, 3]` (RGB) and normalises them as `(pixel / 255 − mean) / std`. */
export interface ImageInput {
  readonly type: 'image-uint8';
  /** Per channel; ImageNet's if absent. */
  readonly mean?: readonly number[];
  /** Per channel, not 0; ImageNet's if absent. */
  readonly std?: readonly number[];
  /** The value of each channel and byte, `channels × 256`, for preprocessing that rounds otherwise; from mean and std if absent. */
  readonly values?: Float32Array;
}

/** An input for photos as they are decoded, whose pixels the graph prepares: `[height, width, 3]`, or `[batch, height, width, 3]`. */
export interface PhotoInput {
  readonly type: PhotoKind;
}

export type PhotoKind = (typeof PHOTO_KINDS)[number];
export const PHOTO_KINDS = ['photo', 'photo-batch'] as const;

/** The fronts of inputs for photos. Who knows the transform makes them; a cut only adds them. */
const fronts = new WeakMap<object, PhotoFront>();

/** An input for photos with the nodes that it stands for. */
export function photoInput(front: PhotoFront): PhotoInput {
  const input: PhotoInput = Object.freeze({ type: front.hasBatch ? 'photo-batch' : 'photo' });
  fronts.set(input, front);
  return input;
}

/** Which photos an input takes; undefined for tensors and bytes. */
export function photoKindOf(input: unknown): PhotoKind | undefined {
  const type: unknown =
    typeof input === 'object' && input !== null && 'type' in input && Object.keys(input).length === 1
      ? input.type
      : input;
  return PHOTO_KINDS.find((kind) => kind === type);
}

/** Options that change what is computed, shared by {@link pruneModel} and {@link createFeatureExtractor}. */
export interface RewriteOptions {
  /**
   * Names of the tensors to feed, in the same forms as the names to return; the graph is cut there. By default, those of the model's
   * inputs that the outputs need.
   * @default undefined
   */
  readonly inputs: readonly string[] | undefined;
  /**
   * `image-uint8` takes pixels `[N, H, W, 3]` and normalises them in the graph, bit for bit as torchvision does. Pixels are a
   * quarter of the bytes of floats. Mean and std are ImageNet's unless you pass `{ type: 'image-uint8', mean, std }`.
   * `photo` takes a decoded photo of any size, uint8 `[height, width, 3]` in RGB, and computes the whole transform in the graph, bit for bit;
   * `photo-batch` takes photos of one size, `[batch, height, width, 3]`.
   * @default 'tensor'
   */
  readonly input: 'tensor' | 'image-uint8' | PhotoKind | ImageInput | PhotoInput;
  /**
   * `dynamic` rewrites a graph that was exported for a fixed batch to take any batch, and verifies it by running it. If that
   * fails, the plan says why, and each run takes one fixed batch after the other. The model's own file can state it (`dynamicBatch`).
   * @default 'keep'
   */
  readonly batch: 'keep' | 'dynamic';
  /**
   * Keep only some of the tokens `[N, L, C]`: the `class` token `[N, 1, C]`, the `registers` or the `patches`. The graph and the model's
   * `config.json` prove which ones they are, see `tokens` of {@link FeatureInfo}. For all outputs, or by key.
   * @default 'all'
   */
  readonly part: PerOutput<'all' | TokenPart>;
  /**
   * Turn patch tokens `[N, L, C]` into a map `[N, C, H, W]`, without class and register tokens. If the model takes images of any
   * size, the map follows the image. What the graph does not prove, runs of it tell. For all outputs, or by key.
   * @default false
   */
  readonly tokensToMap: PerOutput<boolean>;
  /**
   * Reduce each row to one vector: `avg` or `max` over a map, `cls` for the first token, `mean-tokens` for the mean of the patch
   * tokens. After a `part`, `mean-tokens` is the mean of that part. For all outputs, or by key.
   * @default 'none'
   */
  readonly pool: PerOutput<Pool>;
  /**
   * Divide by the Euclidean norm over the channels (at least 1e-12 from operator set 7 on). For all outputs, or by key.
   * @default false
   */
  readonly l2Normalize: PerOutput<boolean>;
  /**
   * Element type of the outputs. `'keep'`: as the file has it; an extractor's default is `'float32'` instead. For all outputs, or by key.
   * @default 'keep'
   */
  readonly outputDtype: PerOutput<OutputDtype>;
  /**
   * Sizes for axes of inputs that the file leaves open, for models that must run on made-up inputs to be measured or verified. Give one
   * size for height and width of images, sizes by the symbolic name of an axis, or whole shapes by the name of an input. Sizes that you
   * leave out are searched for.
   * @default {}
   */
  readonly inputSizes: InputSizes;
}

/** Those that depend on the outputs are checked when these are known. */
export const REWRITE_FIELDS: Fields<RewriteOptions> = {
  inputs: optional(checkNames),
  input: unchecked('tensor'),
  batch: oneOf(['keep', 'dynamic'], 'keep'),
  part: unchecked('all'),
  tokensToMap: unchecked(false),
  pool: unchecked('none'),
  l2Normalize: unchecked(false),
  outputDtype: unchecked('keep'),
  inputSizes: unchecked({}),
};

export const POOLS: readonly Pool[] = ['none', 'avg', 'max', 'cls', 'mean-tokens'];
export const PARTS: readonly ('all' | TokenPart)[] = ['all', 'class', 'registers', 'patches'];
export const OUTPUT_DTYPES: readonly OutputDtype[] = ['keep', 'float32', 'float16'];

/** Checked options. */
export interface RewriteSetup {
  readonly inputs: readonly string[] | undefined;
  readonly image: ImageNormalization | undefined;
  readonly photo: PhotoFront | undefined;
  readonly batch: 'keep' | 'dynamic';
  readonly inputSizes: CheckedSizes;
  readonly partsOf: (key: string) => FeatureParts;
}

/** Reads the options, whose fields are checked, for outputs of the given keys. Throws `OPTION_INVALID`. */
export function readRewriteOptions(options: RewriteOptions, keys: readonly string[]): RewriteSetup {
  const part = readPerOutput('part', options.part, keys, oneOf(PARTS, 'all'));
  const tokensToMap = readPerOutput('tokensToMap', options.tokensToMap, keys, boolean(false));
  const pool = readPerOutput('pool', options.pool, keys, oneOf(POOLS, 'none'));
  const l2Normalize = readPerOutput('l2Normalize', options.l2Normalize, keys, boolean(false));
  const dtype = readPerOutput('outputDtype', options.outputDtype, keys, oneOf(OUTPUT_DTYPES, 'keep'));
  return {
    inputs: options.inputs,
    ...readInput(options.input),
    batch: options.batch,
    inputSizes: readInputSizes(options.inputSizes),
    partsOf: (key) => ({
      part: part(key),
      tokensToMap: tokensToMap(key),
      pool: pool(key),
      l2Normalize: l2Normalize(key),
      dtype: dtype(key),
    }),
  };
}

/** Reads one value for all outputs, or values by key. Throws `OPTION_INVALID`, also for a key that is none. */
export function readPerOutput<Item>(
  option: string,
  given: unknown,
  keys: readonly string[],
  { check, fallback }: Field<Item>,
): (key: string) => Item {
  if (given === null || typeof given !== 'object') {
    const item = check(option, given);
    return () => item;
  }
  const items = new Map(
    entriesOf(given).map(([key, value]) => {
      if (typeof key !== 'string' || !keys.includes(key))
        throw invalidOption(option, `a value, or values by output key (${keys.map(show).join(', ')})`, key);
      return [key, check(`${option}.${key}`, value)];
    }),
  );
  return (key) => (items.has(key) ? items.get(key)! : fallback);
}

function entriesOf(given: object): [unknown, unknown][] {
  return given instanceof Map ? [...given] : Object.entries(given);
}

function readInput(given: unknown): Pick<RewriteSetup, 'image' | 'photo'> {
  if (photoKindOf(given) === undefined) return { image: readImageInput(given), photo: undefined };
  const photo = typeof given === 'object' && given !== null ? fronts.get(given) : undefined;
  if (photo) return { image: undefined, photo };
  throw invalidOption('input', '"tensor" or "image-uint8" here: cut the model with pruneModel first', given);
}

function readImageInput(given: unknown): ImageNormalization | undefined {
  if (given === 'tensor') return undefined;
  const imagenet = { mean: IMAGENET_MEAN, std: IMAGENET_STD };
  if (given === 'image-uint8') return imagenet;
  const expected = '"tensor", "photo", "photo-batch", "image-uint8" or { type: "image-uint8", mean, std }';
  if (given === null || typeof given !== 'object' || !('type' in given) || given.type !== 'image-uint8')
    throw invalidOption('input', expected, given);
  const unknown = Object.keys(given).find((key) => !['type', 'mean', 'std', 'values'].includes(key));
  if (unknown !== undefined) throw invalidOption('input', expected, given);
  const mean: unknown = ('mean' in given ? given.mean : undefined) ?? imagenet.mean;
  const std: unknown = ('std' in given ? given.std : undefined) ?? imagenet.std;
  const isChannels = (list: unknown): list is readonly number[] =>
    Array.isArray(list) &&
    list.length >= 1 &&
    list.length <= 4 &&
    list.every((item) => Number.isFinite(item));
  if (!isChannels(mean)) throw invalidOption('input.mean', 'a finite number per channel', mean);
  if (!isChannels(std) || std.length !== mean.length || std.includes(0))
    throw invalidOption('input.std', 'a finite number other than 0 per channel, as many as in mean', std);
  const values: unknown = 'values' in given ? given.values : undefined;
  if (values === undefined) return { mean: [...mean], std: [...std] };
  const length = mean.length * 256;
  if (!(values instanceof Float32Array) || values.length !== length || !values.every(Number.isFinite))
    throw invalidOption(
      'input.values',
      `${length} finite floats (Float32Array), as mean has ${mean.length}`,
      values,
    );
  return { mean: [...mean], std: [...std], values: values.slice() };
}
