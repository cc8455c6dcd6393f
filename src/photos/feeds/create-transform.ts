/** A transform in any spelling: options, or the name of a preset, of torchvision's weights, or of a configuration file. */
import { resolve } from 'node:path';
import { invalidOption, type Options } from '../../base/checks.js';
import { modelFile } from '../../base/package.js';
import type { Backend } from '../images/configs/config-fields.js';
import { lookUpTransform, readConfig, readTransformFile } from '../images/configs/find-transform.js';
import { transformFromConfig } from '../images/configs/transform-from-config.js';
import {
  TRANSFORM_PRESETS,
  type TransformOptions,
  type TransformPreset,
} from '../images/transform/transform-options.js';
import { makeTransform, Transform } from '../images/transform/transform.js';

/**
 * What functions take as a transform: one from {@link createTransform}, a preset's name, `torchvision:WEIGHTS`, the path of a
 * configuration file or of a model that has one (`MODEL.onnx`), or options.
 */
export type TransformLike = Transform | TransformPreset | Options<TransformOptions> | (string & {});

/**
 * Creates a transform: decode, resize, crop, normalise, with exactly the pixels and floats of torchvision.
 *
 * @param given - A preset's name, `torchvision:ResNet50_Weights.DEFAULT`, the path of a configuration file such as
 * `preprocessor_config.json`, or options. Options that you leave out have the values of `ImageNet1K_V1`. A transform is returned unchanged.
 * @returns The transform, for {@link loadImage} and the embed functions. It keeps a frozen copy of the options.
 * @throws {@link TapirError} `OPTION_INVALID`; `TRANSFORM_UNSUPPORTED` for a configuration that cannot be followed.
 *
 * @example
 * ```ts
 * import { createTransform, loadImage } from 'onnx-tapir';
 *
 * const clip = createTransform({ resize: 224, interpolation: 'bicubic', mean: [0.481, 0.458, 0.408], std: [0.269, 0.261, 0.276] });
 * const image = await loadImage('photo.jpg', clip);
 * console.log(image.toTensor().dims); // [1, 3, 224, 224]
 * ```
 */
export function createTransform(given: TransformLike = 'ImageNet1K_V1'): Transform {
  return readTransformLike(given, undefined, SPELLINGS);
}

const PRESETS = Object.keys(TRANSFORM_PRESETS) as TransformPreset[];

/** What a transform may be, for errors. */
export const SPELLINGS: string = `${PRESETS.map((name) => `"${name}"`).join(', ')}, "torchvision:WEIGHTS", a configuration file or MODEL.onnx that exists, or options`;

/** {@link createTransform} with the arithmetic of a library that has two. @param expected - For the error. */
export function readTransformLike(
  given: TransformLike,
  backend: Backend | undefined,
  expected: string,
): Transform {
  if (given instanceof Transform) return given;
  if (typeof given !== 'string') return makeTransform(given);
  if (given.startsWith('torchvision:')) return transformFromConfig(given);
  const preset = PRESETS.find((name) => name.toLowerCase() === given.toLowerCase());
  if (preset) return makeTransform(preset);
  const model = modelFile(given);
  if (/\.onnx$/i.test(model)) {
    const found = lookUpTransform(model, { backend });
    if (found) return found.transform;
    throw invalidOption('transform', 'a model with a configuration beside it', given);
  }
  const json = readConfig(resolve(given));
  if (json !== undefined) return readTransformFile(resolve(given), json, { backend });
  throw invalidOption('transform', expected, given);
}
