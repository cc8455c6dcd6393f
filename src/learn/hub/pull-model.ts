/** Downloads a known model, or one of a repository, into a cache, and checks it. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { digestFile } from '../../base/digest.js';
import { writeAtomically } from '../../base/atomic-file.js';
import { checkText, invalidOption, type Options } from '../../base/checks.js';
import { defaultsOf, optional, readOptions, type Fields } from '../../base/options.js';
import { lockFolder } from '../../base/folder-lock.js';
import { makeFolder } from '../../base/make-folder.js';
import { checksumMismatch, DOWNLOAD_FIELDS, downloadFile, type DownloadOptions } from './download-file.js';
import { authorizationOf } from './hub-api.js';
import { HUB_ENDPOINT, readHubSettings, type HubSettings } from './hub-settings.js';
import {
  checkKnownModel,
  findKnownModel,
  readModelList,
  type KnownModel,
  type KnownModelFile,
} from './known-models.js';
import { KNOWN_MODELS_FIELDS, type KnownModelsOptions } from './list-known-models.js';
import { modelFolder, saveTransform } from './model-cache.js';
import { PartialFile, sizeOfFile } from './partial-file.js';
import { planRepository, pullRepository, readOffline } from './pull-repository.js';
import { describeFile, type PulledFile, type PulledModel } from './pulled-model.js';
import { isRepositoryReference, parseRepositoryReference } from './repository-reference.js';

/** Options of {@link pullModel}. */
export interface PullOptions extends KnownModelsOptions, DownloadOptions {
  /**
   * Model file of a repository; the image half (`vision_model.onnx`), else `model.onnx`, else the only one if left out.
   * @default undefined
   */
  readonly file: string | undefined;
  /**
   * Variant of a repository's model: `'fp16'` for `model_fp16.onnx`, `'quantized'`, `'q4'`, ….
   * @default undefined
   */
  readonly variant: string | undefined;
}

export const PULL_FIELDS: Fields<PullOptions> = {
  ...KNOWN_MODELS_FIELDS,
  file: optional(checkText, 'of a repository: the model file, such as onnx/vision_model.onnx'),
  variant: optional(checkText, 'of a repository: fp16, quantized, q4, …: model_fp16.onnx and so on'),
  ...DOWNLOAD_FIELDS,
};

export const PULL_DEFAULTS: PullOptions = defaultsOf(PULL_FIELDS);

/**
 * Downloads a known model, or one of a repository of the Hugging Face hub, and checks it. A model that is already there and intact
 * is not downloaded again.
 *
 * @remarks An interrupted download resumes where it stopped, in the same call or in a later one. The proxy of the environment
 * is used (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). Look at the model's licence before you use it.
 *
 * A known model goes to the cache of this package, with its transform in its own file (`MODEL.onnx.tapir.json`), where
 * {@link findTransform} finds it. A model of a repository comes with its weights, configurations and tokenizer. It goes to the cache that
 * Hugging Face's libraries share (`HF_HUB_CACHE`, `HF_HOME`). Files that they have downloaded are used. The hub is asked with the token of
 * `HF_TOKEN` or of the token file, at `HF_ENDPOINT`, and not at all if `HF_HUB_OFFLINE` is set.
 *
 * @param model - A name of {@link listKnownModels}, an entry of your own, or `hf:ORG/REPO[@REVISION][#FILE]` with a branch, tag or commit.
 * A variant can stand behind `#`, too: `hf:Xenova/dinov2-small#fp16`.
 * @param given - See {@link PullOptions}.
 * @returns The entry, and its files in the cache.
 * @throws {@link TapirError} `NAME_NOT_FOUND`; `DOWNLOAD_FAILED`, also for a repository that is gated; `CHECKSUM_MISMATCH`, after the wrong file is deleted;
 * `OUTPUT_LOCKED` while another process pulls the same model; `OUTPUT_UNWRITABLE`; `OPTION_INVALID`; the signal's reason.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor } from 'onnx-tapir';
 * import { pullModel } from 'onnx-tapir/zoo';
 *
 * const { path, model } = await pullModel('mobilenetv2-12');
 * console.log(model.licence.spdx); // Apache-2.0
 * const extractor = await createFeatureExtractor(path, [model.nodes[0]!.name]);
 * await extractor.close();
 * ```
 */
export async function pullModel(
  model: string | KnownModel,
  given: Options<PullOptions> = {},
): Promise<PulledModel> {
  const options = readOptions(PULL_FIELDS, given, 'pullModel');
  if (typeof model === 'string' && isRepositoryReference(model)) {
    const reference = parseRepositoryReference(model, options);
    const cached = await readOffline(reference, options.folder);
    return cached ?? pullRepository(await planRepository(reference, options, options.folder));
  }
  for (const name of ['file', 'variant'] as const)
    if (options[name] !== undefined) throw invalidOption(name, 'left out for a known model', options[name]);
  const known =
    typeof model === 'string'
      ? findKnownModel(await readModelList(options.manifest), model)
      : checkKnownModel(model);
  const files = await pullFiles(known.name, known.files, options);
  const { path } = files[0]!;
  await saveTransform(known, path);
  return { model: known, path, files };
}

/**
 * Downloads files into a folder of the cache, the last one first, and checks them. Those that are there and intact are not downloaded again.
 * Throws as {@link pullModel}.
 *
 * @param name - The folder's name; letters, digits, `.`, `_` and `-`.
 */
export async function pullFiles(
  name: string,
  files: readonly KnownModelFile[],
  options: DownloadOptions & Pick<PullOptions, 'folder'>,
): Promise<PulledFile[]> {
  const settings = await readHubSettings();
  const folder = modelFolder(name, options.folder);
  await makeFolder(folder);
  await using _lock = await lockFolder(folder);
  const pulled: PulledFile[] = [];
  // Weights first: if the model file is there, the model is complete.
  for (const file of files.toReversed())
    pulled.unshift(await pullFile(atEndpoint(file, settings), folder, options, settings));
  return pulled;
}

/** A file of the hub, at the mirror that the user has instead of it. */
function atEndpoint(file: KnownModelFile, { endpoint }: HubSettings): KnownModelFile {
  const isOfHub = file.url.startsWith(`${HUB_ENDPOINT}/`);
  return isOfHub ? { ...file, url: endpoint + file.url.slice(HUB_ENDPOINT.length) } : file;
}

async function pullFile(
  file: KnownModelFile,
  folder: string,
  options: DownloadOptions,
  settings: HubSettings,
): Promise<PulledFile> {
  const path = join(folder, file.name);
  const recorded = file.sha256 === null ? await readRecord(path) : null;
  const expected = file.sha256 ?? recorded;
  const checked = file.sha256 !== null ? 'list' : recorded !== null ? 'record' : 'first';
  const isThere = (await sizeOfFile(path)) !== null;
  if (isThere && expected !== null && (await digestFile(path)) === expected)
    return { ...(await describeFile(file.name, path, expected)), checked, isNew: false };
  const partial = new PartialFile(path);
  const isOfHub = file.url.startsWith(`${settings.endpoint}/`);
  const authorization = isOfHub ? authorizationOf(settings) : undefined;
  await downloadFile(file, partial, { ...options, authorization });
  const actual = await digestFile(partial.path);
  if (expected !== null && actual !== expected) {
    await partial.discard();
    const hint = checked === 'record' ? `; to trust the new file, delete "${recordPath(path)}"` : '';
    throw checksumMismatch(file.url, path, expected, actual, { hint });
  }
  await writeAtomically(recordPath(path), Buffer.from(`${actual}  ${file.name}\n`));
  await partial.finish();
  return { ...(await describeFile(file.name, path, actual)), checked, isNew: true };
}

/** The record of a checksum, beside its file, in the format of `sha256sum --check`. */
function recordPath(path: string): string {
  return `${path}.sha256`;
}

async function readRecord(path: string): Promise<string | null> {
  const text = await readFile(recordPath(path), 'utf8').catch(() => '');
  return /^[0-9a-f]{64}(?= )/.exec(text)?.[0] ?? null;
}
