/** `preprocessor_config.json` of Hugging Face's transformers (5.24), with the arithmetic of either backend. */
import { isDeepStrictEqual } from 'node:util';
import { show } from '../../../base/checks.js';
import { isFixedSize } from '../pixels/geometry.js';
import type { Interpolation } from '../resample/kernel.js';
import type { Backend, ConfigFields, ConfigOptions, ResolvedConfig } from './config-fields.js';
import {
  CLASS_OF_MODEL,
  PROCESSOR_CLASSES,
  REFUSED_CLASSES,
  type LikeClass,
  type ProcessorClass,
} from './hugging-face-classes.js';
import { LIKE_CLASSES } from './like-classes.js';
import { readPatches } from './hugging-face-patches.js';
import { readGeometry } from './hugging-face-sizes.js';

/**
 * Fields that have no effect on the pixels of an RGB image, or none in these classes. Either backend gives channels first, whatever
 * `data_format` says.
 */
export const HARMLESS: readonly string[] = [
  'processor_class', 'auto_map', 'image_processor_type', 'feature_extractor_type', 'size_divisor', 'do_resize_crop_pct', 'device',
  'return_tensors', 'disable_grouping', 'input_data_format', 'do_convert_rgb', 'do_reduce_labels', 'reduce_labels', '_processor_class',
  'do_flip_channels', '_valid_processor_keys', 'model_input_names', 'backend', 'transformers_version', 'valid_kwargs', 'data_format',
]; // prettier-ignore

/** Fields that only some classes read. */
const OF_OTHER_CLASSES = ['crop_pct', 'rescale_offset', 'include_top', 'do_flip_channel_order'] as const;

/** Classes that pad to a size of their own. */
const PADS: ReadonlySet<string> = new Set(['longest edge', 'thumbnail']);

/** Pillow's numbers. */
const RESAMPLE: readonly Interpolation[] = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'];
/** What torchvision's tensors can be resized with. */
const TORCH: ReadonlySet<Interpolation> = new Set(['nearest', 'bilinear', 'bicubic', 'lanczos']);

/** Whether it looks like a processor's. */
export function isHuggingFace(json: Readonly<Record<string, unknown>>): boolean {
  return [
    'image_processor_type',
    'feature_extractor_type',
    'image_mean',
    'do_normalize',
    'do_resize',
    'do_center_crop',
    'crop_size',
    'auto_map',
  ].some((name) => name in json);
}

/** What the configuration of the model adds, for files that do not name their class. */
export type ModelConfig = Readonly<Record<string, unknown>>;

/**
 * Reads a processor's configuration.
 *
 * @param model - The model's `config.json`, whose `model_type` tells the class of a nameless processor.
 */
export function readHuggingFace(
  given: ConfigFields,
  asked: Backend | undefined,
  model: ModelConfig | undefined,
): Omit<ResolvedConfig, 'kind'> {
  const { own, fields } = readClass(given, model);
  const { special } = own;
  // Some classes have no processor for Pillow.
  const isTorchOnly = special === 'float' || own.isTorchOnly === true;
  const backend = isTorchOnly ? 'torchvision' : (asked ?? 'torchvision');
  fields.skip(...HARMLESS);
  if (own.aside) fields.skipAll(own.aside);
  for (const [name, reason] of Object.entries(own.never ?? {}))
    if (fields.flag(name, false)) throw fields.refuse(name, reason);
  const cut = readPatches(fields, own);
  const geometry: ConfigOptions = cut ?? readGeometry(fields, own, backend);
  const { resize, crop = null } = geometry;
  if (!(special !== undefined && PADS.has(special)))
    checkPadding(fields, crop !== null || isFixedSize(resize ?? null));
  const interpolation = readResample(fields, own.resample, backend, cut !== undefined || resize !== null);
  if (special === 'float' && interpolation !== 'bilinear')
    throw fields.refuse('resample', `floats are resized with bilinear only, got ${interpolation}`);
  const options: ConfigOptions = {
    cropOffset: backend === 'pil' ? 'floor' : 'trunc',
    ...geometry,
    interpolation,
    resampler: special === 'float' ? 'torch-float' : backend === 'pil' ? 'pillow' : 'torch',
    channelOrder: special === 'bgr' && fields.flag('do_flip_channel_order', true) ? 'bgr' : 'rgb',
    arithmetic: backend === 'pil' ? 'transformers' : 'fused',
    ...readValues(fields, own, backend),
  };
  return { options, ignored: fields.rest(OF_OTHER_CLASSES), backend };
}

/** The class whose arithmetic is known, and the fields as that class reads them. */
function readClass(
  fields: ConfigFields,
  model: ModelConfig | undefined,
): { readonly own: ProcessorClass; readonly fields: ConfigFields } {
  const stated =
    fields.take('image_processor_type') ?? fields.take('feature_extractor_type') ?? remoteClass(fields);
  const modelType = model?.['model_type'];
  if (stated === undefined && typeof modelType !== 'string')
    throw fields.refuse(
      'image_processor_type',
      'the file names no class, and no config.json beside it tells the model_type',
    );
  const name =
    stated === undefined
      ? classOfModel(String(modelType))
      : show(stated).replace(/^"(.*?)(?:ImageProcessor|FeatureExtractor)?(?:Fast|Pil)?"$/, '$1');
  if (name !== undefined && Object.hasOwn(PROCESSOR_CLASSES, name))
    return { own: PROCESSOR_CLASSES[name]!, fields };
  if (name !== undefined && Object.hasOwn(LIKE_CLASSES, name)) return readLike(fields, name);
  const shown = show(stated ?? modelType);
  const refused = REFUSED_CLASSES.find(([pattern]) => pattern.test(name ?? ''));
  const field =
    stated === undefined
      ? 'model_type'
      : (['image_processor_type', 'feature_extractor_type'].find((one) => fields.has(one)) ?? 'auto_map');
  throw fields.refuse(
    field,
    `${shown}: ${refused?.[1] ?? `the class is not known; known are ${[...Object.keys(PROCESSOR_CLASSES), ...Object.keys(LIKE_CLASSES)].join(', ')}`}`,
  );
}

/** By the names of models, as transformers' AutoImageProcessor chooses it. */
function classOfModel(modelType: string): string | undefined {
  const isOf = ([, { models }]: readonly [string, LikeClass]): boolean => models.includes(modelType);
  return CLASS_OF_MODEL[modelType] ?? Object.entries(LIKE_CLASSES).find(isOf)?.[0];
}

/** A class shares the steps of the one that it is like, not its numbers. */
const NO_DEFAULTS = { size: {}, crop: null, crops: false, mean: null, std: null, normalizes: false } as const;

/** A class that has the bits of another one, as far as that is known. */
function readLike(given: ConfigFields, name: string): ReturnType<typeof readClass> {
  const { like, fields: defaults, isTorchOnly = false, free = [], only = {} } = LIKE_CLASSES[name]!;
  const fields = given.over(defaults);
  for (const [field, needed] of Object.entries(only)) {
    const value = fields.take(field) ?? null;
    if (!isDeepStrictEqual(value, needed) && !(value === null && needed === false))
      throw fields.refuse(
        field,
        `${name}ImageProcessor is known to have the pixels of ${like}ImageProcessor only where it is ${show(needed)}, got ${show(value)}`,
      );
  }
  fields.skip(...free);
  return { own: { ...PROCESSOR_CLASSES[like]!, ...NO_DEFAULTS, isTorchOnly }, fields };
}

/** The class that code in the repository defines. */
function remoteClass(fields: ConfigFields): string | undefined {
  const map = fields.take('auto_map');
  const found = typeof map === 'object' ? (map as Record<string, unknown>)['AutoImageProcessor'] : undefined;
  return typeof found === 'string' ? found : undefined;
}

function readResample(
  fields: ConfigFields,
  otherwise: number,
  backend: Backend,
  resizes: boolean,
): Interpolation {
  const value = fields.take('resample') ?? otherwise;
  const found = typeof value === 'number' ? RESAMPLE[value] : undefined;
  if (!found)
    throw fields.refuse('resample', `it must be one of Pillow's numbers, 0 to 5, got ${show(value)}`);
  if (!resizes) return 'bilinear';
  if (backend === 'torchvision' && !TORCH.has(found))
    throw fields.refuse(
      'resample',
      `torchvision cannot resize tensors with ${found}; ask for the backend "pil"`,
    );
  return found;
}

/** Padding to the largest image of a batch would make a result depend on its neighbours. It has no effect on results of one size. */
function checkPadding(fields: ConfigFields, hasOneSize: boolean): void {
  const pads = fields.flag('do_pad', false);
  const size = fields.take('pad_size');
  if (pads && (!hasOneSize || size !== undefined))
    throw fields.refuse(
      'do_pad',
      'it pads to the largest image of a batch, or to another size than the crop',
    );
}

/** Scaling and normalising. */
function readValues(
  fields: ConfigFields,
  { special, ...own }: ProcessorClass,
  backend: Backend,
): ConfigOptions {
  const factor = fields.positive('rescale_factor', 1 / 255);
  const rescales = fields.flag('do_rescale', true);
  if (special === 'float' && !rescales)
    throw fields.refuse('do_rescale', 'this class resizes scaled values, and fails without scaling');
  const asksNormal = fields.flag('do_normalize', own.normalizes ?? true);
  // MobileViT never normalises.
  const normalizes = asksNormal && special !== 'bgr';
  if (rescales) fields.checkSet('rescale_factor', 'do_rescale');
  if (rescales && !normalizes && backend === 'torchvision' && Number.isInteger(factor) && factor > 1)
    throw fields.refuse(
      'rescale_factor',
      `bytes times the whole number ${factor} wrap around at 256 in transformers`,
    );
  if (asksNormal) for (const name of ['image_mean', 'image_std']) fields.checkSet(name, 'do_normalize');
  const mean = fields.channels('image_mean') ?? own.mean;
  const std = fields.channels('image_std') ?? own.std;
  if (normalizes && (mean === null || std === null))
    throw fields.refuse(
      mean === null ? 'image_mean' : 'image_std',
      'it is asked to normalise, and neither the file nor its class has numbers',
    );
  const isTop = special === 'include_top';
  return {
    scale: rescales ? factor : 1,
    offset: isTop && fields.flag('rescale_offset', false) && rescales ? 1 : 0,
    mean: normalizes ? mean : null,
    std: normalizes ? std : null,
    secondStd: isTop && fields.flag('include_top', true) ? std : null,
  };
}
