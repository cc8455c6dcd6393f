/** The public list of known models. */
import { checkText, type Options } from '../../base/checks.js';
import { optional, readOptions, type Fields } from '../../base/options.js';
import { readModelList, type KnownModel } from './known-models.js';
import { findCachedModel } from './model-cache.js';

/** Options of {@link listKnownModels}. */
export interface KnownModelsOptions {
  /**
   * Path of another list of models, in the format of this package's `models/manifest.json`.
   * @default undefined
   */
  readonly manifest: string | undefined;
  /**
   * Folder of the downloaded models; `models` in the user's cache folder of onnx-tapir if left out.
   * @default undefined
   */
  readonly folder: string | undefined;
}

export const KNOWN_MODELS_FIELDS: Fields<KnownModelsOptions> = {
  manifest: optional(checkText, 'another list of models, in the same format'),
  folder: optional(checkText),
};

/** A known model, and whether it is already downloaded. */
export interface ListedModel extends KnownModel {
  /** Path of the model file; null if the model is not downloaded. */
  readonly cached: string | null;
}

/**
 * Lists the models with trained weights that {@link pullModel} can download.
 *
 * @remarks Reads a list that is part of this package, and needs no network. The sizes of downloaded files are checked, their
 * checksums are not.
 *
 * @param given - See {@link KnownModelsOptions}.
 * @returns The models in the order of the list.
 * @throws {@link TapirError} `OPTION_INVALID` if `manifest` is not a readable list.
 *
 * @example
 * ```ts
 * import { listKnownModels } from 'onnx-tapir/zoo';
 *
 * for (const { name, licence, cached } of await listKnownModels()) console.log(name, licence.spdx, cached); // resnet18-v1-7 Apache-2.0 null …
 * ```
 */
export async function listKnownModels(given: Options<KnownModelsOptions> = {}): Promise<ListedModel[]> {
  const { manifest, folder } = readOptions(KNOWN_MODELS_FIELDS, given, 'listKnownModels');
  const models = await readModelList(manifest);
  const cached = await Promise.all(models.map((model) => findCachedModel(model, folder)));
  return models.map((model, i) => Object.assign(model, { cached: cached[i]! }));
}
