/** Downloads files of weights into the cache, and keeps models that are built of them there. */
import { isPortableName } from '../../base/files/portable-name.js';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, dirname, posix } from 'node:path';
import { digestOf } from '../../base/digest.js';
import type { Options } from '../../base/checks.js';
import { makeFolder } from '../../base/make-folder.js';
import { readOptions, type Fields } from '../../base/options.js';
import { checksumMismatch, DOWNLOAD_FIELDS, type DownloadOptions } from '../hub/download-file.js';
import { checkFile, type KnownModel, type KnownModelFile } from '../hub/known-models.js';
import { saveTransform } from '../hub/model-cache.js';
import { PULL_FIELDS, pullFiles, type PullOptions } from '../hub/pull-model.js';
import { describeFile, type PulledFile, type PulledModel } from '../hub/pulled-model.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';

/** How a checkpoint is downloaded, and the folder of the cache. */
type CheckpointOptions = DownloadOptions & Pick<PullOptions, 'folder'>;

const CHECKPOINT_FIELDS: Fields<CheckpointOptions> = { ...DOWNLOAD_FIELDS, folder: PULL_FIELDS.folder };

/** The name of a checkpoint of torch's hub ends with the first digits of its SHA-256. */
const DIGITS = /-([0-9a-f]{8,})\.\w+$/;

/** Whether a text is an address to download from, rather than a path. */
export function isWebAddress(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/**
 * Downloads the weights at an address; once, as long as the file in the cache is intact. Returns its path. Throws `CHECKSUM_MISMATCH` if the
 * file is not the one that its name states, or not the one of the first download; what {@link pullModel} throws.
 */
export async function pullWeights(url: string, options: Options<CheckpointOptions> = {}): Promise<string> {
  const { pathname } = URL.canParse(url) ? new URL(url) : { pathname: '' };
  const file = posix
    .basename(pathname)
    .replace(/[^\w.-]/g, '_')
    .slice(-100)
    .replace(/^[^A-Za-z0-9]+/, '');
  const folder = `weights-${digestOf(url).slice(0, 16)}`;
  return (
    await pullCheckpoint(
      folder,
      { name: isPortableName(file) ? file : 'weights', ...UNCHECKED, url },
      options,
    )
  ).path;
}

const UNCHECKED = { sizeBytes: null, sha256: null };

/** Downloads a checkpoint into a folder of the cache. Throws what {@link pullWeights} throws. */
export async function pullCheckpoint(
  folder: string,
  file: KnownModelFile,
  given: Options<CheckpointOptions>,
): Promise<PulledFile> {
  const options = readOptions(CHECKPOINT_FIELDS, given, 'pullWeights');
  const [pulled] = await pullFiles(folder, [checkFile(folder, file)], options);
  const { name, path, sha256 } = pulled!;
  const digits = DIGITS.exec(name)?.[1] ?? '';
  if (sha256.startsWith(digits)) return pulled!;
  await Promise.all([path, `${path}.sha256`].map((one) => rm(one, { force: true })));
  throw checksumMismatch(file.url, path, digits, sha256);
}

/** Builds a model of downloaded weights unless it is there, and returns it with its transform beside it. New weights build it again. */
export async function buildInCache(
  model: KnownModel,
  path: string,
  { checked, isNew }: Pick<PulledFile, 'checked' | 'isNew'>,
  build: () => Promise<OnnxModel>,
): Promise<PulledModel> {
  const isBuilt = isNew || !existsSync(path);
  if (isBuilt) {
    const built = await build();
    await makeFolder(dirname(path));
    await built.save(path, { overwrite: true });
  }
  await saveTransform(model, path);
  const file = await describeFile(basename(path), path);
  return { model, path, files: [{ ...file, checked, isNew: isBuilt }] };
}
