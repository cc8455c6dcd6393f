/** Configuration files of the libraries that trained a model → its transform. */
import { checkOneOf, withDefaults, type Options } from '../../../base/checks.js';
import { TRANSFORM_PRESETS, type TransformPreset } from '../transform/transform-options.js';
import { makeTransform, Transform, withoutOrigin } from '../transform/transform.js';
import { ConfigFields, type Backend, type ConfigOptions, type ResolvedConfig } from './config-fields.js';
import { isHuggingFace, readHuggingFace, type ModelConfig } from './hugging-face.js';
import { isOpenClip, readOpenClip } from './open-clip.js';
import { isTimm, readTimm } from './timm.js';
import { isTorchvision, readTorchvision, readTorchvisionWeights, TORCHVISION_PREFIX } from './torchvision.js';

/** Options of {@link transformFromConfig}. */
export interface ConfigReading {
  /**
   * The arithmetic of transformers: that of its processors on Pillow (`pil`), or that of those on torchvision, which transformers 5
   * takes where torchvision is installed. Other libraries have one.
   * @default 'torchvision'
   */
  readonly backend: Backend | undefined;
  /**
   * The model's `config.json`. Its `model_type` tells the class of an old processor file that names none.
   * @default undefined
   */
  readonly model: ModelConfig | undefined;
}

const DEFAULTS: ConfigReading = { backend: undefined, model: undefined };

/**
 * Reads a transform from a configuration. It knows Hugging Face's `preprocessor_config.json`, timm's `config.json`, OpenCLIP's
 * `open_clip_config.json`, Immich's `preprocess_cfg.json`, torchvision's fields, `JSON.stringify(transform.options)`, and files that hold
 * these: `MODEL.onnx.tapir.json`, the `manifest.json` of a dataset.
 *
 * @param config - The parsed file, its text, the name of a preset, or that of torchvision's weights
 * (`torchvision:ResNet50_Weights.IMAGENET1K_V2`).
 * @returns The transform, with the pixels and floats of that library.
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` with the name of the field that cannot be followed; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { loadImage, transformFromConfig } from 'onnx-tapir';
 *
 * const clip = transformFromConfig({ image_processor_type: 'CLIPImageProcessor' }, { backend: 'pil' });
 * const image = await loadImage('photo.jpg', clip);
 * console.log(image.toTensor().dims); // [1, 3, 224, 224]
 * ```
 */
export function transformFromConfig(config: unknown, given: Options<ConfigReading> = {}): Transform {
  return readTransform(config, null, given);
}

/** {@link transformFromConfig} for a configuration from a file. */
export function readTransform(
  config: unknown,
  file: string | null,
  given: Options<ConfigReading>,
): Transform {
  const { options, ...source } = resolveConfig(readText(config), given);
  return new Transform(makeTransform(options).options, null, { file, ...source });
}

function resolveConfig(config: unknown, given: Options<ConfigReading>): ResolvedConfig {
  const { backend, model } = withDefaults(DEFAULTS, given, 'transformFromConfig');
  if (backend !== undefined) checkOneOf('backend', backend, ['pil', 'torchvision']);
  if (typeof config === 'string') return readName(config);
  const json = checkObject(config);
  const type = json['image_processor_type'];
  if (type === 'JinaCLIPImageProcessor' || (type === undefined && isOpenClip(json)))
    return { ...readOpenClip(new ConfigFields(json, 'OpenCLIP')), kind: 'open_clip', backend: null };
  if (isTimm(json)) return { ...readTimm(new ConfigFields(json, 'timm')), kind: 'timm', backend: null };
  if (isTorchvision(json)) {
    const fields = new ConfigFields(json, 'torchvision');
    return { options: readTorchvision(fields), ignored: fields.rest(), kind: 'torchvision', backend: null };
  }
  if (isOwn(json)) return { options: readOwn(json), kind: 'onnx-tapir', backend: null, ignored: [] };
  // processor_config.json holds the image processor's fields inside.
  const inner = json['image_processor'];
  if (typeof inner === 'object' && inner !== null) return resolveConfig(inner, given);
  const fields = new ConfigFields(json, 'transformers');
  if (isHuggingFace(json)) return { ...readHuggingFace(fields, backend, model), kind: 'transformers' };
  // A model's own file, and the manifest of a dataset.
  if (json['transform']) return resolveConfig(json['transform'], given);
  const reason =
    'no field tells what library the configuration belongs to; options of onnx-tapir have the field resize or crop';
  throw fields.refuse('image_processor_type', reason);
}

/** Parses the text of a configuration. A name is a name with and without the quotes of JSON. What cannot be parsed is returned unchanged. */
function readText(config: unknown): unknown {
  try {
    return typeof config === 'string' ? (JSON.parse(config) as unknown) : config;
  } catch {
    return config;
  }
}

function readName(name: string): ResolvedConfig {
  const rest = { backend: null, ignored: [] };
  if (name.startsWith(TORCHVISION_PREFIX))
    return { ...readTorchvisionWeights(name), kind: 'torchvision', ...rest };
  if (Object.hasOwn(TRANSFORM_PRESETS, name))
    return { options: TRANSFORM_PRESETS[name as TransformPreset], kind: 'onnx-tapir', ...rest };
  throw notAnObject();
}

function checkObject(json: unknown): Readonly<Record<string, unknown>> {
  if (typeof json === 'object' && json !== null && !Array.isArray(json))
    return json as Record<string, unknown>;
  throw notAnObject();
}

function notAnObject(): Error {
  const reason = 'it is neither a JSON object nor the name of a preset or of torchvision weights';
  return new ConfigFields({}, 'transform').refuse('(file)', reason);
}

/** Whether they are options of onnx-tapir that state a whole transform. */
export function isOwn(json: Readonly<Record<string, unknown>>): boolean {
  return Object.hasOwn(json, 'resize') || Object.hasOwn(json, 'crop');
}

/** What `JSON.stringify(transform.options)` gives. Unknown fields are `OPTION_INVALID`. */
function readOwn(json: Readonly<Record<string, unknown>>): ConfigOptions {
  return withDefaults(TRANSFORM_PRESETS.ImageNet1K_V1, withoutOrigin(json) as ConfigOptions, 'transform');
}
