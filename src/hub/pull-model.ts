/** Downloads a known model into the cache folder, and checks it. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable, writeAtomically } from '../base/atomic-file.js';
import {
  checkInteger,
  checkSignal,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import { lockFolder } from '../base/folder-lock.js';
import { makeFolder } from '../base/make-folder.js';
import { downloadFile, type DownloadOptions } from './download-file.js';
import {
  checkKnownModel,
  findKnownModel,
  readModelList,
  type KnownModel,
  type KnownModelFile,
} from './known-models.js';
import { KNOWN_MODELS_DEFAULTS, type KnownModelsOptions } from './list-known-models.js';
import { modelFolder } from './model-cache.js';
import { PartialFile, sha256OfFile, sizeOfFile } from './partial-file.js';

/** Options of {@link pullModel}. */
export interface PullOptions extends KnownModelsOptions, DownloadOptions {}

/** A model in the cache. */
export interface PulledModel {
  /** The entry of the list: licence, transform, useful nodes. */
  readonly model: KnownModel;
  /** Path of the model file. */
  readonly path: string;
  /** The model file, followed by its external weights. */
  readonly files: readonly PulledFile[];
}

/** A file in the cache. */
export interface PulledFile {
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  /** What the checksum was compared with: the list, the record of an earlier download, or nothing (the first download). */
  readonly checked: 'list' | 'record' | 'first';
  /** Whether the file was downloaded by this call. */
  readonly isNew: boolean;
}

const HOUR_MS = 3_600_000;

export const PULL_DEFAULTS: PullOptions = {
  ...KNOWN_MODELS_DEFAULTS,
  allowHttp: false,
  stallMs: 30_000,
  attempts: 5,
  retryDelayMs: 1000,
  limitBytes: 4 * 2 ** 30,
  signal: undefined,
  onProgress: undefined,
};

/**
 * Downloads a known model into the cache, and checks its SHA-256. A model that is already there and intact is not downloaded
 * again.
 *
 * @remarks An interrupted download resumes where it stopped, in the same call or in a later one. The proxy of the environment
 * is used (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). Look at the model's licence before you use it.
 *
 * @param model - A name of {@link listKnownModels}, or an entry of your own.
 * @param given - See {@link PullOptions}.
 * @returns The entry, and its files in the cache.
 * @throws {@link TapirError} `NAME_NOT_FOUND`; `DOWNLOAD_FAILED`; `CHECKSUM_MISMATCH`, after the wrong file is deleted;
 * `OUTPUT_LOCKED` while another process pulls the same model; `OUTPUT_UNWRITABLE`; `OPTION_INVALID`; the signal's reason.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, pullModel } from 'onnx-tapir';
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
  const options = withDefaults(PULL_DEFAULTS, given, 'pullModel');
  checkOptions(options);
  const known =
    typeof model === 'string'
      ? findKnownModel(await readModelList(options.manifest), model)
      : checkKnownModel(model);
  const folder = modelFolder(known, options.folder);
  try {
    await makeFolder(folder);
  } catch (error) {
    throw unwritable(folder, error);
  }
  const lock = await lockFolder(folder);
  try {
    const files: PulledFile[] = [];
    // Weights first: if the model file is there, the model is complete.
    for (const file of known.files.toReversed()) files.unshift(await pullFile(file, folder, options));
    return { model: known, path: files[0]!.path, files };
  } finally {
    await lock.release();
  }
}

function checkOptions(options: PullOptions): void {
  for (const name of ['manifest', 'folder'] as const)
    if (options[name] !== undefined) checkText(name, options[name]);
  checkSignal(options.signal);
  checkInteger('stallMs', options.stallMs, 1, HOUR_MS);
  checkInteger('attempts', options.attempts, 1, 100);
  checkInteger('retryDelayMs', options.retryDelayMs, 0, HOUR_MS);
  checkInteger('limitBytes', options.limitBytes, 1, Number.MAX_SAFE_INTEGER);
  if (options.onProgress !== undefined && typeof options.onProgress !== 'function')
    throw invalidOption('onProgress', 'a function', options.onProgress);
}

async function pullFile(file: KnownModelFile, folder: string, options: PullOptions): Promise<PulledFile> {
  const path = join(folder, file.name);
  const recorded = file.sha256 === null ? await readRecord(path) : null;
  const expected = file.sha256 ?? recorded;
  const checked = file.sha256 !== null ? 'list' : recorded !== null ? 'record' : 'first';
  const isThere = (await sizeOfFile(path)) !== null;
  if (isThere && expected !== null && (await sha256OfFile(path)) === expected)
    return { ...(await describe(file, path, expected)), checked, isNew: false };
  const partial = new PartialFile(path);
  await downloadFile(file, partial, options);
  const actual = await sha256OfFile(partial.path);
  if (expected !== null && actual !== expected) {
    await partial.discard();
    throw mismatch(file, path, expected, actual, checked === 'record');
  }
  await writeAtomically(recordPath(path), Buffer.from(`${actual}  ${file.name}\n`));
  await partial.finish();
  return { ...(await describe(file, path, actual)), checked, isNew: true };
}

async function describe(
  { name }: KnownModelFile,
  path: string,
  sha256: string,
): Promise<Pick<PulledFile, 'name' | 'path' | 'sizeBytes' | 'sha256'>> {
  return { name, path, sizeBytes: (await sizeOfFile(path)) ?? 0, sha256 };
}

function mismatch(
  { url }: KnownModelFile,
  path: string,
  expected: string,
  actual: string,
  isRecord: boolean,
): TapirError<'CHECKSUM_MISMATCH'> {
  const hint = isRecord ? `; to trust the new file, delete "${recordPath(path)}"` : '';
  const message = `${url} is not the expected file: its SHA-256 is ${actual}, not ${expected}${hint}`;
  return new TapirError('CHECKSUM_MISMATCH', message, { details: { path, expected, actual } });
}

/** The record of a checksum, beside its file, in the format of `sha256sum --check`. */
function recordPath(path: string): string {
  return `${path}.sha256`;
}

async function readRecord(path: string): Promise<string | null> {
  const text = await readFile(recordPath(path), 'utf8').catch(() => '');
  return /^[0-9a-f]{64}(?= )/.exec(text)?.[0] ?? null;
}
