/** The transform that a call asks for: what belongs to its model, or what is stated; and changes on top of either. */
import { invalidOption, isPlainObject, type Options } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import { oneOf, optional, unchecked, type Fields } from '../../base/options.js';
import { TRANSFORM_PRESETS, type TransformOptions } from '../images/transform/transform-options.js';
import { Transform } from '../images/transform/transform.js';
import { CROPS } from '../images/pixels/crops.js';
import type { Backend } from '../images/configs/config-fields.js';
import { createTransform, readTransformLike, SPELLINGS, type TransformLike } from './create-transform.js';
import { PHOTO_SIZE, type PhotoSize } from './photo-size.js';
import { lookUpTransform } from '../images/configs/find-transform.js';
import { isOwn, transformFromConfig } from '../images/configs/transform-from-config.js';

/**
 * What functions that know a model take as a transform. `'auto'` is what belongs to the model. Options without `resize` and `crop` change
 * what belongs to the model; options with one of them, and all else, state the whole transform.
 */
export type TransformRequest = 'auto' | TransformLike | PartialTransform;

/** Options on top of the transform that belongs to a model. */
export type PartialTransform = Options<
  Omit<TransformOptions, 'resize' | 'crop'> & { readonly backend: Backend }
>;

/** The transform of a call, and what is changed in it, wherever it comes from. */
export interface TransformChoice {
  /**
   * Preprocessing: `'auto'`, the name of a preset, `torchvision:WEIGHTS`, the path of a configuration file, options, or a transform
   * from {@link createTransform}. Its results must fit the model's input. `'auto'` takes what {@link findTransform}
   * finds beside the model; else it assumes `ImageNet1K_V1`, unless the model's file contradicts it. Options without `resize` and `crop`
   * change what `'auto'` takes.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
  /**
   * `exif` turns photos upright, `ignore` reads them as stored, whatever the transform says.
   * @default undefined
   */
  readonly orientation: TransformOptions['orientation'] | undefined;
  /**
   * `white` lays transparent pixels over white, `drop` shows what is under their alpha, whatever the transform says.
   * @default undefined
   */
  readonly alpha: TransformOptions['alpha'] | undefined;
  /**
   * The arithmetic of transformers, for a configuration of transformers: `pil` or `torchvision`; see {@link ConfigReading}.
   * @default undefined
   */
  readonly backend: Backend | undefined;
  /**
   * Whose arithmetic the resize has, whatever the transform says; see {@link TransformOptions}.
   * @default undefined
   */
  readonly resampler: TransformOptions['resampler'] | undefined;
  /**
   * Which crops of a photo become rows, whatever the transform says; see {@link TransformOptions}.
   * @default undefined
   */
  readonly crops: TransformOptions['crops'] | undefined;
  /**
   * The transform at another size: a number of pixels for both sides, or `{ height, width }` (a crop and its resize keep their ratio); or
   * the photo's own ratio: `{ height }`, `{ shortest }` or `{ longest }` rounded down to a `multiple`, or `{ multiple }` alone for the photo's own
   * size. Without `multiple`, it is the model's patch.
   * @default undefined
   */
  readonly size: PhotoSize | undefined;
}

export const TRANSFORM_FIELDS: Fields<TransformChoice> = {
  // Checked with the model.
  transform: unchecked<TransformRequest>(
    'auto',
    `preprocessing: auto (the configuration beside the model), ${Object.keys(TRANSFORM_PRESETS).join(', ')}, torchvision:WEIGHTS, a configuration file, or JSON (without resize and crop: on top of auto)`,
  ),
  orientation: optional(
    oneOf(['ignore', 'exif'], 'ignore', 'exif turns photos upright; ignore reads them as stored'),
  ),
  alpha: optional(
    oneOf(['drop', 'white'], 'drop', 'white lays transparent photos over white; drop ignores alpha'),
  ),
  backend: optional(
    oneOf(
      ['pil', 'torchvision'],
      'torchvision',
      'with a configuration of transformers: compute as its processors on Pillow or on torchvision do',
    ),
  ),
  resampler: optional(
    oneOf(
      ['pillow', 'pillow-13', 'torch', 'torch-float'],
      'pillow',
      'resize as this library does, whatever the transform says',
    ),
  ),
  crops: optional(
    oneOf(
      CROPS,
      'center',
      'crops of a photo: the one in the center, five with the corners, or ten with their mirror images',
    ),
  ),
  size: optional(PHOTO_SIZE),
};

/** A choice whose changes may be left out. */
export type TransformAsked = Pick<TransformChoice, 'transform'> & Partial<TransformChoice>;

/**
 * The transform that a choice means, at its own size: see {@link fitSize}.
 *
 * @param model - Path of the model; undefined for one that was opened from bytes.
 * @param otherwise - What is changed where `'auto'` finds nothing.
 * @param own - What `'auto'` is for this model, if its user said so.
 * @throws {@link TapirError} `OPTION_INVALID`, `TRANSFORM_UNSUPPORTED`.
 */
export function chooseTransform<Otherwise extends Transform | undefined>(
  { transform: given, orientation, alpha, backend, resampler, crops }: TransformAsked,
  model: string | undefined,
  otherwise: () => Otherwise,
  own: TransformRequest = 'auto',
): Transform | Otherwise {
  const isJson = typeof given === 'string' && given.trimStart().startsWith('{');
  const request = isJson ? parseOptions(given) : given;
  const partial = isPartial(request) ? request : undefined;
  const { backend: ownBackend, ...options } = partial ?? {};
  const asked = backend ?? ownBackend;
  const read = (): Transform | Otherwise | undefined => {
    if (partial || request === 'auto')
      return own === 'auto'
        ? findOwn(model, asked)
        : chooseTransform({ transform: own, backend: asked }, model, otherwise);
    return isJson
      ? transformFromConfig(request, { backend })
      : readTransformLike(request as TransformLike, backend, `"auto", ${SPELLINGS} (as text: JSON)`);
  };
  const isStated = Object.keys(options).some((name) => VALUES.has(name));
  const transform = read() ?? (isStated ? createTransform() : otherwise());
  if (asked !== undefined && transform?.source?.backend !== asked)
    throw invalidOption('backend', 'left out: only configurations of transformers have two', asked);
  return transform && transform.with(options).with(givenOf({ orientation, alpha, resampler, crops }));
}

/** Options that tell what a model was trained on: who states one knows the transform, and it is not assumed. */
const VALUES: ReadonlySet<string> = new Set([
  'mean',
  'std',
  'scale',
  'offset',
  'interpolation',
  'channelOrder',
] satisfies (keyof TransformOptions)[]);

function givenOf(
  changes: Pick<TransformAsked, 'orientation' | 'alpha' | 'resampler' | 'crops'>,
): Options<TransformOptions> {
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
}

function findOwn(model: string | undefined, backend: Backend | undefined): Transform | undefined {
  return model === undefined ? undefined : lookUpTransform(model, { backend })?.transform;
}

function isPartial(request: unknown): request is PartialTransform {
  if (!isPlainObject(request) || request instanceof Transform || isOwn(request)) return false;
  return Object.keys(request).every((name) => name === 'backend' || name in TRANSFORM_PRESETS.ImageNet1K_V1);
}

function parseOptions(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw invalidOption('transform', `JSON that can be parsed (${reasonOf(error)})`, text);
  }
}
