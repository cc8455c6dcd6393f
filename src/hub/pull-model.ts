/** A known model into the cache folder, checked, once. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unwritable, writeAtomically } from '../base/atomic-file.js';
import { defaultCacheFolder } from '../base/cache-folder.js';
import { checkInteger, checkSignal, withDefaults, type Options } from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import { lockFolder } from '../base/folder-lock.js';
import { makeFolder } from '../base/make-folder.js';
import { downloadFile, type DownloadOptions } from './download-file.js';
import type { HubFile, HubModel } from './model-list.js';
import { PartialFile, sha256OfFile, sizeOfFile } from './partial-file.js';

/** How a model is pulled. */
export interface PullOptions extends DownloadOptions {
  /** Folder of all pulled models; '' for `models` in the user's cache folder. */
  readonly folder: string;
}

/** A file that is in the cache. */
export interface PulledFile {
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  /** What the checksum was compared with: the list, an earlier download's record, or nothing yet. */
  readonly checked: 'list' | 'record' | 'first';
  /** Whether the network was needed. */
  readonly isNew: boolean;
}

const HOUR_MS = 3_600_000;

export const PULL_DEFAULTS: PullOptions = Object.freeze({
  folder: '',
  allowHttp: false,
  stallMs: 30_000,
  attempts: 5,
  retryDelayMs: 1000,
  limitBytes: 4 * 2 ** 30,
  signal: undefined,
  onProgress: () => undefined,
});

/** Where a model lies, or would lie. */
export function modelFolder({ name }: HubModel, folder = ''): string {
  return join(folder === '' ? join(defaultCacheFolder(), 'models') : folder, name);
}

/** The model file in the cache; null unless all files of the model are there. Their content is checked when they are pulled. */
export async function findCachedModel(model: HubModel, folder = ''): Promise<string | null> {
  const place = modelFolder(model, folder);
  for (const { name, sizeBytes } of model.files) {
    const size = await sizeOfFile(join(place, name));
    if (size === null || (sizeBytes !== null && size !== sizeBytes)) return null;
  }
  return join(place, model.files[0]!.name);
}

/**
 * Pulls a model. What is there already and right is kept, without asking the network.
 *
 * @returns Its files, the model first.
 * @throws {@link TapirError} `DOWNLOAD_FAILED`; `CHECKSUM_MISMATCH`, with nothing left behind; `OUTPUT_UNWRITABLE`.
 */
export async function pullModel(model: HubModel, given: Options<PullOptions> = {}): Promise<PulledFile[]> {
  const options = withDefaults(PULL_DEFAULTS, given, 'pull options');
  checkSignal(options.signal);
  checkInteger('stallMs', options.stallMs, 1, HOUR_MS);
  checkInteger('attempts', options.attempts, 1, 100);
  checkInteger('retryDelayMs', options.retryDelayMs, 0, HOUR_MS);
  checkInteger('limitBytes', options.limitBytes, 1, Number.MAX_SAFE_INTEGER);
  const folder = modelFolder(model, options.folder);
  try {
    await makeFolder(folder);
  } catch (error) {
    throw unwritable(folder, error);
  }
  const lock = await lockFolder(folder);
  try {
    const pulled: PulledFile[] = [];
    // Weights first: a model file that is there is complete.
    for (const file of model.files.toReversed()) pulled.unshift(await pullFile(file, folder, options));
    return pulled;
  } finally {
    await lock.release();
  }
}

async function pullFile(file: HubFile, folder: string, options: PullOptions): Promise<PulledFile> {
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
  { name }: HubFile,
  path: string,
  sha256: string,
): Promise<Pick<PulledFile, 'name' | 'path' | 'sizeBytes' | 'sha256'>> {
  return { name, path, sizeBytes: (await sizeOfFile(path)) ?? 0, sha256 };
}

function mismatch(
  { url }: HubFile,
  path: string,
  expected: string,
  actual: string,
  isRecord: boolean,
): TapirError<'CHECKSUM_MISMATCH'> {
  const hint = isRecord ? `; to trust the new file, remove "${recordPath(path)}"` : '';
  const message = `${url} is not the file that it should be: its SHA-256 is ${actual}, not ${expected}${hint}`;
  return new TapirError('CHECKSUM_MISMATCH', message, { details: { path, expected, actual } });
}

/** Beside the file, as `sha256sum --check` reads it. */
function recordPath(path: string): string {
  return `${path}.sha256`;
}

async function readRecord(path: string): Promise<string | null> {
  const text = await readFile(recordPath(path), 'utf8').catch(() => '');
  return /^[0-9a-f]{64}(?= )/.exec(text)?.[0] ?? null;
}
