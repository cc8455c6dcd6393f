/** Finds the wheel of a pinned package, on a package index or on disk, and downloads it. Its content is known beforehand. */
import { basename, join, resolve } from 'node:path';
import { digestFile } from '../../../base/digest.js';
import { invalidOption } from '../../../base/checks.js';
import { startOfWheel, type EnginePackage } from '../../../base/engine-packages.js';
import { checksumMismatch, downloadFile, type DownloadOptions } from '../download-file.js';
import { PartialFile, sizeOfFile } from '../partial-file.js';
import type { PinnedWheel } from './engine-wheels.js';
import { findOnIndex, type RemoteFile } from './package-index.js';

/** A wheel, and where it is. */
export interface FoundWheel extends PinnedWheel {
  /** Null if it is unknown. */
  readonly sizeBytes: number | null;
  readonly from: LocalFile | RemoteFile;
}

/** A file that the user has downloaded. */
interface LocalFile {
  readonly path: string;
}

/** The wheels of a package, the preferred one first. */
function wheelsOf(wanted: EnginePackage, pinned: readonly PinnedWheel[]): readonly PinnedWheel[] {
  return pinned.filter(({ filename }) => filename.startsWith(startOfWheel(wanted)));
}

/**
 * Finds the wheel of a package among the user's files, and checks it. Throws `OPTION_INVALID` if no file is such a wheel;
 * `CHECKSUM_MISMATCH`.
 */
export async function readLocalWheel(
  wanted: EnginePackage,
  pinned: readonly PinnedWheel[],
  given: readonly string[],
): Promise<FoundWheel> {
  const wheels = wheelsOf(wanted, pinned);
  const path = given.find((one) => wheels.some(({ filename }) => filename === basename(one)));
  if (path === undefined) {
    const names = wheels.map(({ filename }) => filename).join(', ');
    const expected = `a wheel of ${wanted.project} ${wanted.version} for this system, under its full name (${names})`;
    throw invalidOption('wheel', expected, given.join(', '));
  }
  const sizeBytes = await sizeOfFile(path);
  if (sizeBytes === null) throw invalidOption('wheel', 'an existing file', path);
  const { filename, sha256 } = wheels.find((wheel) => wheel.filename === basename(path))!;
  const actual = await digestFile(path);
  if (actual !== sha256) throw checksumMismatch(path, path, sha256, actual);
  return { filename, sha256, sizeBytes, from: { path: resolve(path) } };
}

/** Finds the preferred wheel of a package on a package index. Throws `DOWNLOAD_FAILED`, `OPTION_INVALID`. */
export async function findWheel(
  wanted: EnginePackage,
  pinned: readonly PinnedWheel[],
  indexUrl: string | undefined,
  options: DownloadOptions,
): Promise<FoundWheel> {
  const wheel = wheelsOf(wanted, pinned)[0]!;
  const { sizeBytes, ...from } = await findOnIndex(wanted.project, wheel.filename, indexUrl, options);
  return { ...wheel, sizeBytes, from };
}

/** Downloads a wheel into a folder, checks it, and returns its path. One that an earlier call has downloaded is used. */
export async function fetchWheel(
  { filename, sha256, sizeBytes }: FoundWheel,
  { url, authorization }: RemoteFile,
  folder: string,
  options: DownloadOptions,
): Promise<string> {
  const path = join(folder, filename);
  if ((await sizeOfFile(path)) !== null && (await digestFile(path)) === sha256) return path;
  const partial = new PartialFile(path);
  await downloadFile({ name: filename, url, sizeBytes, sha256 }, partial, { ...options, authorization });
  const actual = await digestFile(partial.path);
  if (actual !== sha256) {
    await partial.discard();
    throw checksumMismatch(url, path, sha256, actual);
  }
  await partial.finish();
  return path;
}
