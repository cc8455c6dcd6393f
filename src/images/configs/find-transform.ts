/** The transform that belongs to a model: the configuration file beside it. */
import { basename, dirname, join, resolve } from 'node:path';
import { checkPath, invalidOption, isPlainObject, type Options } from '../../base/checks.js';
import { TRANSFORM_FILES } from '../../base/config-files.js';
import { reasonOf, TapirError } from '../../base/errors.js';
import { readJson } from '../../base/read-json.js';
import { TRANSFORM_PRESETS, type TransformPreset } from '../transform/transform-options.js';
import {
  createTransform,
  type Transform,
  type TransformLike,
  type TransformSource,
} from '../transform/transform.js';
import { isHuggingFace, type ModelConfig } from './hugging-face.js';
import { isTimm } from './timm.js';
import { readTransform, transformFromConfig, type ConfigReading } from './transform-from-config.js';

/** A transform that was found. */
export interface FoundTransform {
  readonly transform: Transform;
  /** Path of the configuration file. */
  readonly from: string;
  /** The library that the configuration belongs to. */
  readonly kind: TransformSource['kind'];
}

/**
 * Finds the transform of a model: `MODEL.onnx.transform.json`, `transform.json`, Hugging Face's, OpenCLIP's, Immich's or timm's file, beside
 * the model or one folder up.
 *
 * @param model - Path or `file:` URL of the model file.
 * @param given - See {@link ConfigReading}.
 * @returns The transform and where it is from; null if there is no such file.
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for a file that cannot be read or followed; the message names it.
 *
 * @example
 * ```ts
 * import { findTransform, loadImage } from 'onnx-tapir';
 *
 * const found = await findTransform('siglip/onnx/vision_model.onnx');
 * if (found) console.log(found.from, (await loadImage('photo.jpg', found.transform)).height);
 * ```
 */
export async function findTransform(
  model: string | URL,
  given: Options<ConfigReading> = {},
): Promise<FoundTransform | null> {
  return lookUpTransform(checkPath('model', model), given);
}

function lookUpTransform(model: string, given: Options<ConfigReading> = {}): FoundTransform | null {
  const path = resolve(model);
  const folder = dirname(path);
  const candidates = [
    sidecarOf(path),
    ...[folder, dirname(folder)].flatMap((place) => TRANSFORM_FILES.map((name) => join(place, name))),
  ];
  for (const from of candidates) {
    const json = readConfig(from);
    if (json === undefined || !mayHoldTransform(from, json)) continue;
    const transform = readTransformFile(from, json, given);
    return { transform, from, kind: transform.source!.kind };
  }
  return null;
}

/** The file with the transform of one model. */
export function sidecarOf(model: string): string {
  return `${model}.transform.json`;
}

/** Reads a configuration; undefined only if there is no such file. */
function readConfig(path: string): unknown {
  return readJson(
    path,
    (reason, cause) =>
      new TapirError('TRANSFORM_UNSUPPORTED', `"${path}" cannot be read: ${reason}; mend or remove it`, {
        details: { field: '(file)', reason },
        cause,
      }),
  );
}

/** Every model has a config.json, and only timm's tells pixels. A processor_config.json may hold no image processor. */
function mayHoldTransform(path: string, json: unknown): boolean {
  const name = basename(path);
  if (name === 'config.json') return isPlainObject(json) && isTimm(json);
  return name !== 'processor_config.json' || (isPlainObject(json) && 'image_processor' in json);
}

function readTransformFile(from: string, json: unknown, given: Options<ConfigReading>): Transform {
  try {
    const model = given.model ?? (isNameless(json) ? readModel(from) : undefined);
    return readTransform(json, from, { ...given, model });
  } catch (error) {
    if (!(error instanceof TapirError)) throw error;
    const { field, reason } = { field: '(file)', reason: error.message, ...(error.details as object) };
    throw new TapirError('TRANSFORM_UNSUPPORTED', `"${from}": ${error.message}`, {
      details: { field, reason },
      cause: error,
    });
  }
}

/** Whether only the model's own configuration tells the class of a processor. */
function isNameless(json: unknown): boolean {
  if (!isPlainObject(json)) return false;
  const inner = isPlainObject(json['image_processor']) ? json['image_processor'] : json;
  return isHuggingFace(inner) && !('image_processor_type' in inner) && !('feature_extractor_type' in inner);
}

/** The model's config.json beside a configuration; undefined if it is missing. */
function readModel(from: string): ModelConfig | undefined {
  const json = readConfig(join(dirname(from), 'config.json'));
  return isPlainObject(json) ? json : undefined;
}

/** What functions that know a model take as a transform; `'auto'` is what belongs to the model. */
export type TransformRequest = 'auto' | TransformLike | (string & {});

/**
 * The transform that a request means.
 *
 * @param request - `'auto'` looks beside the model. Other texts are a preset's name,
 * `torchvision:WEIGHTS`, JSON, or the path of a configuration file.
 * @param model - Path of the model; undefined for one that was opened from bytes.
 * @returns Undefined where `'auto'` finds nothing.
 * @throws {@link TapirError} `OPTION_INVALID`, `TRANSFORM_UNSUPPORTED`.
 */
export function chooseTransform(request: TransformRequest, model: string | undefined): Transform | undefined {
  if (typeof request !== 'string') return createTransform(request);
  if (request === 'auto') return (model === undefined ? null : lookUpTransform(model))?.transform;
  if (request.trimStart().startsWith('{')) return transformFromConfig(parseOptions(request));
  if (request.startsWith('torchvision:')) return transformFromConfig(request);
  const presets = Object.keys(TRANSFORM_PRESETS);
  if (presets.some((name) => name.toLowerCase() === request.toLowerCase()))
    return createTransform(request as TransformPreset);
  const json = readConfig(resolve(request));
  if (json !== undefined) return readTransformFile(resolve(request), json, {});
  const names = presets.map((name) => `"${name}"`).join(', ');
  const expected = `"auto", ${names}, "torchvision:WEIGHTS", a file that exists, or options (as text: JSON)`;
  throw invalidOption('transform', expected, request);
}

function parseOptions(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw invalidOption('transform', `JSON that can be parsed (${reasonOf(error)})`, text);
  }
}
