/** The transform that a call asks for: what belongs to its model, or what is stated; and changes on top of either. */
import { checkText, invalidOption, isPlainObject, type Options } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import { splitKeyValues } from '../../base/key-values.js';
import { nearestOrAll } from '../../base/nearest-names.js';
import { unchecked, type Fields } from '../../base/options.js';
import {
  TRANSFORM_PRESETS,
  type TransformOptions,
  type TransformPreset,
} from '../images/transform/transform-options.js';
import { Transform } from '../images/transform/transform.js';
import type { Backend } from '../images/configs/config-fields.js';
import { createTransform, readTransformLike, SPELLINGS, type TransformLike } from './create-transform.js';
import { checkPhotoSize, parseSize, type PhotoSize } from './photo-size.js';
import { lookUpTransform } from '../images/configs/find-transform.js';
import { transformFromConfig } from '../images/configs/transform-from-config.js';

/**
 * What functions that know a model take as a transform. `'auto'` is what belongs to the model. {@link PartialTransform} changes what belongs to
 * the model, or its `base`; options with `resize` or `crop`, and all else, state the whole transform.
 */
export type TransformRequest = 'auto' | TransformLike | PartialTransform;

/** Changes on top of the transform that belongs to a model, or of another one. */
export type PartialTransform = Options<
  Omit<TransformOptions, 'resize' | 'crop'> & {
    /** What is changed: `'auto'`, the name of a preset, `torchvision:WEIGHTS`, or the path of a configuration file. */
    readonly base: 'auto' | TransformPreset | (string & {});
    /** The arithmetic of transformers, for a configuration of transformers; see {@link ConfigReading}. */
    readonly backend: Backend;
    /**
     * Another size. A number of pixels is for both sides; with `{ height, width }`, a crop and its resize keep their ratio. The photo's own
     * ratio stays with `{ height }`, `{ shortest }` or `{ longest }`, rounded down to a `multiple`, or with `{ multiple }` alone for the
     * photo's own size. Without `multiple`, it is the model's patch.
     */
    readonly size: PhotoSize;
  }
>;

/** The transform of a call. */
export interface TransformChoice {
  /**
   * Preprocessing: `'auto'`, the name of a preset, `torchvision:WEIGHTS`, the path of a configuration file, options, or a transform
   * from {@link createTransform}. Its results must fit the model's input. `'auto'` takes what {@link findTransform}
   * finds beside the model; else it assumes `ImageNet1K_V1`, unless the model's file contradicts it. Options without `resize` and `crop`
   * change what `'auto'` takes: `{ size: 448, orientation: 'exif' }`; see {@link PartialTransform}.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
}

export const TRANSFORM_FIELDS: Fields<TransformChoice> = {
  // Checked with the model.
  transform: unchecked<TransformRequest>(
    'auto',
    `preprocessing: auto (the configuration beside the model), ${Object.keys(TRANSFORM_PRESETS).join(', ')}, torchvision:WEIGHTS, a configuration file, or JSON; changes on top of it: size=448,orientation=exif, alone (auto) or behind a name and a comma`,
  ),
};

/** The transform that a request means, at its own size, and the size that is asked for: see {@link fitSize}. */
export interface ChosenTransform<Otherwise> {
  readonly transform: Transform | Otherwise;
  readonly size: PhotoSize | undefined;
}

/**
 * The transform that a request means.
 *
 * @param model - Path of the model; undefined for one that was opened from bytes.
 * @param otherwise - What is changed where `'auto'` finds nothing.
 * @param own - What `'auto'` is for this model, if its user said so.
 * @throws {@link TapirError} `OPTION_INVALID`, `TRANSFORM_UNSUPPORTED`.
 */
export function chooseTransform<Otherwise extends Transform | undefined>(
  given: TransformRequest,
  model: string | undefined,
  otherwise: () => Otherwise,
  own: TransformRequest = 'auto',
): ChosenTransform<Otherwise> {
  const request = readRequest(given);
  const isOnOwn = request.base === 'auto' && own !== 'auto';
  const { base, backend, size, options } = isOnOwn ? stack(readRequest(own), request) : request;
  const found = base === 'auto' ? findOwn(model, backend) : readBase(base, backend);
  const isStated = Object.keys(options).some((name) => VALUES.has(name));
  const transform = found ?? (isStated ? createTransform() : otherwise());
  if (backend !== undefined && transform?.source?.backend !== backend)
    throw invalidOption('backend', 'left out: only configurations of transformers have two', backend);
  return { transform: transform && transform.with(options), size };
}

/** Checks a request before its model is known. Throws those of {@link chooseTransform}. */
export function checkRequest(given: TransformRequest): void {
  const { base, backend, options } = readRequest(given);
  (base === 'auto' ? createTransform() : readBase(base, backend)).with(options);
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

/** A request: what is changed, and how. */
interface Reading {
  /** A text that begins with `{` is a configuration as JSON. */
  readonly base: 'auto' | TransformLike;
  readonly backend: Backend | undefined;
  readonly size: PhotoSize | undefined;
  readonly options: Options<TransformOptions>;
}

function readRequest(given: TransformRequest): Reading {
  // A preset's name is a text, too.
  const request = typeof given === 'string' ? readText(given as string) : given;
  if (!isPartial(request))
    return { base: request as TransformLike, backend: undefined, size: undefined, options: {} };
  const { base = 'auto', backend, size, ...options } = request;
  const checked = size === undefined ? undefined : checkPhotoSize('size', size);
  return { base: base === 'auto' ? base : checkText('base', base), backend, size: checked, options };
}

/** Changes on top of others. */
function stack(below: Reading, above: Reading): Reading {
  return {
    base: below.base,
    backend: above.backend ?? below.backend,
    size: above.size ?? below.size,
    options: { ...below.options, ...above.options },
  };
}

function readBase(base: TransformLike, backend: Backend | undefined): Transform {
  if (typeof base === 'string' && isJson(base)) return transformFromConfig(parseJson(base), { backend });
  return readTransformLike(
    base,
    backend,
    `"auto", ${SPELLINGS} (as text: JSON, or changes such as size=448)`,
  );
}

function findOwn(model: string | undefined, backend: Backend | undefined): Transform | undefined {
  return model === undefined ? undefined : lookUpTransform(model, { backend })?.transform;
}

/** Names of what a request may change. */
const CHANGES: readonly string[] = [
  'base',
  'backend',
  'size',
  ...Object.keys(TRANSFORM_PRESETS.ImageNet1K_V1).filter((name) => name !== 'resize' && name !== 'crop'),
];

function isPartial(request: unknown): request is PartialTransform {
  if (!isPlainObject(request) || request instanceof Transform) return false;
  return Object.keys(request).every((name) => CHANGES.includes(name));
}

function isJson(text: string): boolean {
  return text.trimStart().startsWith('{');
}

/** Reads changes as text; other texts are a name, a path, or a configuration as JSON. */
function readText(text: string): unknown {
  if (isJson(text)) {
    const json = parseJson(text);
    return isPartial(json) ? json : text;
  }
  const found = splitKeyValues(text);
  if (!found) return text;
  const changes = Object.fromEntries(
    Array.from(found.values, ([name, value]) => [name, readChange(name, value)]),
  );
  return found.lead === undefined ? changes : { base: found.lead, ...changes };
}

function readChange(name: string, text: string): unknown {
  if (!CHANGES.includes(name)) {
    throw invalidOption('transform', `changes of ${nearestOrAll(name, CHANGES)}`, name);
  }
  if (name === 'size') return parseSize(text);
  return text.includes(',') ? text.split(',').map(readValue) : readValue(text);
}

/** A number, `true`, `false` or `null`; else the text as it is. */
function readValue(text: string): unknown {
  return /^(?:-?[\d.]+(?:e-?\d+)?|true|false|null)$/i.test(text)
    ? parseJson(text.replace(/^(-?)\./, '$10.'))
    : text;
}

function parseJson(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw invalidOption('transform', `JSON that can be parsed (${reasonOf(error)})`, text);
  }
}
