/** The transform that belongs to a model: the configuration file beside it. */
import { readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { checkPath, isPlainObject, type Options } from '../../../base/checks.js';
import { MODULES_FILE, TRANSFORM_FILES } from '../../../base/config-files.js';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { modelFile } from '../../../base/package.js';
import { readJson } from '../../../base/read-json.js';
import { readModelSettings } from '../../../run/model/open/model-settings.js';
import { shortestValue, type TransformOptions } from '../transform/transform-options.js';
import { Transform, type TransformSource } from '../transform/transform.js';
import { isHuggingFace, type ModelConfig } from './hugging-face.js';
import { isTimm } from './timm.js';
import { readTransform, type ConfigReading } from './transform-from-config.js';

/** A transform that was found. */
export interface FoundTransform {
  readonly transform: Transform;
  /** Path of the configuration file. */
  readonly from: string;
  /** The library that the configuration belongs to. */
  readonly kind: TransformSource['kind'];
}

/**
 * Finds the transform of a model. It reads the model's own file, `MODEL.onnx.tapir.json`, or the older `MODEL.onnx.transform.json`. Else it
 * looks for `transform.json`, or the file of Hugging Face, OpenCLIP, Immich or timm: beside the model, one folder up, or in the folder of a
 * sentence-transformers part there.
 *
 * @param model - Path or `file:` URL of the model file, or `demo`.
 * @param given - See {@link ConfigReading}.
 * @returns The transform and where it is from; null if there is no such file.
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for a file that cannot be read or followed; the message names it.
 * `SETTINGS_INVALID` for a damaged `MODEL.onnx.tapir.json`.
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
  return lookUpTransform(modelFile(checkPath('model', model)), given);
}

/** {@link findTransform}, at once. */
export function lookUpTransform(model: string, given: Options<ConfigReading> = {}): FoundTransform | null {
  const path = resolve(model);
  const own = readModelSettings(path);
  if (own?.transform) {
    const transform = readTransformFile(own.file, own.transform, given);
    return {
      transform: withOthers(transform, [olderFile(path)]),
      from: own.file,
      kind: transform.source!.kind,
    };
  }
  for (const files of candidatesOf(path)) {
    for (const [place, from] of files.entries()) {
      const json = readConfig(from);
      if (json === undefined || !mayHoldTransform(from, json)) continue;
      const transform = readTransformFile(from, json, given);
      // What the user wrote needs no such note.
      const others = transform.source?.kind === 'onnx-tapir' ? [] : files.slice(place + 1);
      const noted = withOthers(transform, others);
      return { transform: noted, from, kind: transform.source!.kind };
    }
  }
  return null;
}

/** The files that may tell a model's pixels, folder by folder. */
function* candidatesOf(model: string): Generator<readonly string[]> {
  yield [olderFile(model)];
  for (const place of [dirname(model), dirname(dirname(model))]) {
    yield TRANSFORM_FILES.map((name) => join(place, name));
    for (const part of partFolders(place)) yield TRANSFORM_FILES.map((name) => join(place, part, name));
  }
}

/** Folders of the parts of a sentence-transformers model: those that it lists, else by their names. */
function partFolders(place: string): readonly string[] {
  const list = readConfig(join(place, MODULES_FILE));
  const paths = Array.isArray(list) ? list.map((part: unknown) => isPlainObject(part) && part['path']) : [];
  // A path that leads elsewhere is no part of the model.
  const listed = paths.filter((path) => typeof path === 'string' && /^\w[\w.-]*$/.test(path)) as string[];
  if (list !== undefined) return listed;
  try {
    return readdirSync(place).filter((name) => /^0_\w+$/.test(name));
  } catch {
    // The reason comes when the model in the folder is opened.
    return [];
  }
}

/** How the arithmetic of libraries differs in the last digits; two of them would differ always. */
const ROUNDING: ReadonlySet<string> = new Set(['arithmetic', 'cropOffset', 'resampler']);

/** Notes the other configurations that mean other pixels. */
function withOthers(transform: Transform, files: readonly string[]): Transform {
  const { options, preset, source } = transform;
  if (!source) return transform;
  const others = files.flatMap((file) => {
    const differs = differencesTo(options, file);
    return differs.length > 0 ? [{ file, differs }] : [];
  });
  return others.length === 0 ? transform : new Transform(options, preset, { ...source, others });
}

function differencesTo(options: TransformOptions, file: string): string[] {
  try {
    const json = readConfig(file);
    if (json === undefined || !mayHoldTransform(file, json)) return [];
    const other = readTransformFile(file, json, {}).options;
    const names = Object.keys(other) as (keyof TransformOptions)[];
    const changed = names.filter(
      (name) => !ROUNDING.has(name) && textOf(name, other[name]) !== textOf(name, options[name]),
    );
    return changed.map((name) => `${name}: ${textOf(name, other[name])}`);
  } catch (error) {
    // Most models have a config.json, and few of them tell pixels.
    return basename(file) === 'config.json' ? [] : [reasonOf(error)];
  }
}

function textOf(name: string, value: unknown): string {
  return JSON.stringify(shortestValue(name, value));
}

/** The file with the transform of one model, as earlier versions wrote it. */
function olderFile(model: string): string {
  return `${model}.transform.json`;
}

/** Reads a configuration; undefined only if there is no such file. */
export function readConfig(path: string): unknown {
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

/** The transform of a configuration file. Throws `TRANSFORM_UNSUPPORTED`, which names the file; `OPTION_INVALID` for a backend that it does not have. */
export function readTransformFile(from: string, json: unknown, given: Options<ConfigReading>): Transform {
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
