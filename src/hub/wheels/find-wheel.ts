/** Finds the wheel of a pinned package for this platform, on a package index or on disk, and downloads it. */
import { basename, join, resolve } from 'node:path';
import { digestFile } from '../../base/digest.js';
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { labelOfUrl } from '../../base/printable.js';
import { checksumMismatch, downloadFile, type Authorized, type DownloadOptions } from '../download-file.js';
import { PartialFile, sizeOfFile } from '../partial-file.js';
import { readPackageIndex } from './index-settings.js';
import { listWheels, type IndexedWheel } from './package-index.js';
import {
  chooseWheel,
  describePlatform,
  parseWheelName,
  readPlatform,
  type Platform,
  type WheelName,
} from './wheel-name.js';

/** A package of exactly one version. */
export interface PinnedPackage {
  /** As the index spells it. */
  readonly project: string;
  readonly version: string;
}

/** A wheel that fits this platform. */
export interface FoundWheel {
  readonly filename: string;
  readonly sha256: string;
  /** Null if it is unknown. */
  readonly sizeBytes: number | null;
  readonly from: LocalWheel | RemoteWheel;
}

/** A wheel that the user has downloaded. */
interface LocalWheel {
  readonly path: string;
}

/** A wheel on an index. The address is without user and password. */
interface RemoteWheel extends Authorized {
  readonly url: string;
  /** The index and where its address comes from, for a message. */
  readonly index: string;
}

/** Finds the wheel of a package for this platform among the user's files. Throws `OPTION_INVALID` if no file is such a wheel. */
export async function readLocalWheel(wanted: PinnedPackage, given: readonly string[]): Promise<FoundWheel> {
  const platform = readPlatform();
  const candidates = given.flatMap((path) => {
    const name = parseWheelName(basename(path));
    return name && isOf(name, wanted) ? [{ filename: basename(path), name, path: resolve(path) }] : [];
  });
  const chosen = chooseWheel(candidates, platform);
  if (!chosen) {
    const expected = `a wheel of ${textOf(wanted)} for ${describePlatform(platform)}, under its full name`;
    throw invalidOption('wheel', expected, given.join(', '));
  }
  const { path, filename } = chosen;
  const sizeBytes = await sizeOfFile(path);
  if (sizeBytes === null) throw invalidOption('wheel', 'an existing file', path);
  return { filename, sha256: await digestFile(path), sizeBytes, from: { path } };
}

/**
 * Asks the package index, that of pip's settings unless one is given, for a wheel of a package for this platform. Throws `DOWNLOAD_FAILED`
 * with the platforms that there are wheels for; `OPTION_INVALID`.
 */
export async function findWheel(
  wanted: PinnedPackage,
  indexUrl: string | undefined,
  options: DownloadOptions,
): Promise<FoundWheel> {
  const platform = readPlatform();
  const index = await readPackageIndex(indexUrl);
  const all = await listWheels(index, wanted.project, options);
  const wheels = all?.filter(({ name }) => isOf(name, wanted));
  const wheel = chooseWheel(wheels?.filter(({ yanked }) => yanked === null) ?? [], platform);
  const label = `${labelOfUrl(index.url)} (${index.from})`;
  if (wheel) return take(wheel, label, wanted);
  throw notFound(labelOfUrl(index.url), wanted, `${label} ${whyNone(wheels, wanted, platform)}`);
}

function isOf({ project, version }: WheelName, wanted: PinnedPackage): boolean {
  return project === wanted.project && version === wanted.version;
}

function textOf({ project, version }: PinnedPackage): string {
  return `${project} ${version}`;
}

function whyNone(
  wheels: readonly IndexedWheel[] | undefined,
  wanted: PinnedPackage,
  platform: Platform,
): string {
  if (!wheels) return 'does not have this project';
  const kept = wheels.filter(({ yanked }) => yanked === null);
  const platforms = new Set(kept.flatMap(({ name }) => name.platforms));
  if (platforms.size > 0)
    return `has wheels for ${[...platforms].toSorted().join(', ')}, and this is ${describePlatform(platform)}`;
  const [withdrawn] = wheels;
  if (!withdrawn) return `has no wheel of ${textOf(wanted)}`;
  return `has withdrawn ${textOf(wanted)}${withdrawn.yanked ? ` (${withdrawn.yanked})` : ''}`;
}

function take({ sha256, url, ...wheel }: IndexedWheel, index: string, wanted: PinnedPackage): FoundWheel {
  const { filename, sizeBytes, authorization } = wheel;
  if (sha256 !== null) return { filename, sha256, sizeBytes, from: { url, authorization, index } };
  const reason = `${index} does not state the SHA-256 of ${filename}; download it yourself, and pass it with --wheel`;
  throw notFound(labelOfUrl(url), wanted, reason);
}

function notFound(url: string, wanted: PinnedPackage, reason: string): TapirError<'DOWNLOAD_FAILED'> {
  const message = `cannot download ${textOf(wanted)}: ${reason}`;
  return new TapirError('DOWNLOAD_FAILED', message, { details: { url, reason } });
}

/** Downloads a wheel into a folder, checks it, and returns its path. One that an earlier call has downloaded is used. */
export async function fetchWheel(
  { filename, sha256, sizeBytes }: FoundWheel,
  { url, authorization }: RemoteWheel,
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
