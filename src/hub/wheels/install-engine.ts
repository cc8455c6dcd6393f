/** Installs an engine: finds the wheel with its libraries, downloads and checks it, and unpacks what the engine needs. */
import { mkdir, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { unwritable, writeAtomically } from '../../base/atomic-file.js';
import { checkOneOf, checkText, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import {
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  type InstallableEngine,
} from '../../base/engine-packages.js';
import { isTapirError, TapirError } from '../../base/errors.js';
import { labelOfUrl } from '../../base/url-label.js';
import {
  checkDownloadOptions,
  checksumMismatch,
  DOWNLOAD_DEFAULTS,
  downloadFile,
  type DownloadOptions,
} from '../download-file.js';
import { PartialFile, sha256OfFile, sizeOfFile } from '../partial-file.js';
import { WHEEL_CONTENTS } from './engine-files.js';
import { readPackageIndexes } from './index-settings.js';
import {
  findInstalledEngine,
  lockEngines,
  placeEngine,
  remnantOf,
  type EngineRecord,
  type InstalledEngine,
} from './installed-engine.js';
import { listWheels, type IndexedWheel } from './package-index.js';
import { unpackWheel } from './unpack-wheel.js';
import { chooseWheel, describePlatform, parseWheelName, readPlatform } from './wheel-name.js';

/** Options of {@link installEngine}. */
export interface InstallOptions extends DownloadOptions {
  /**
   * Address of a Python package index; may contain user and password. If left out: `PIP_INDEX_URL`, else pip's configuration
   * files, else the public index.
   * @default undefined
   */
  readonly indexUrl: string | undefined;
  /**
   * Path of a wheel that you have downloaded, for a machine without a network. No index is asked.
   * @default undefined
   */
  readonly wheel: string | undefined;
}

export const INSTALL_DEFAULTS: InstallOptions = {
  ...DOWNLOAD_DEFAULTS,
  indexUrl: undefined,
  wheel: undefined,
};

/** The wheel to install. */
export interface PlannedWheel {
  readonly filename: string;
  readonly sha256: string;
  /** Null if it is unknown. */
  readonly sizeBytes: number | null;
  /** Its path, or its address and the label of the index that states it. */
  readonly from:
    | { readonly path: string }
    | { readonly url: string; readonly authorization: string | undefined; readonly index: string };
}

/** What an installation does. */
export interface InstallPlan {
  readonly name: InstallableEngine;
  readonly folder: string;
  /** The engine, if it is installed already. */
  readonly installed: InstalledEngine | null;
  /** Null if nothing needs to be done. */
  readonly wheel: PlannedWheel | null;
}

/**
 * Installs the libraries of an engine that does not come with this package. An engine that is there and complete is not installed
 * again.
 *
 * @remarks The libraries come from a wheel, the package format of Python; Python itself is not needed. The version is pinned by
 * this package. The wheel's SHA-256 must be the one that the index states. Only the needed libraries and their licences are
 * unpacked, into `engines` in the user's cache folder of onnx-tapir. An interrupted download resumes where it stopped. The proxy
 * of the environment is used (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`), and the package index of `PIP_INDEX_URL`,
 * `PIP_EXTRA_INDEX_URL` or pip's configuration files.
 *
 * @param name - The engine.
 * @param given - See {@link InstallOptions}.
 * @returns The engine in its folder.
 * @throws {@link TapirError} `DOWNLOAD_FAILED`, also if there is no wheel for this platform; `CHECKSUM_MISMATCH`, after the wrong file is deleted;
 * `PACKAGE_INVALID` for a wheel that is damaged or unsafe; `OUTPUT_LOCKED` while another process installs an engine;
 * `OUTPUT_UNWRITABLE`; `OPTION_INVALID`; the signal's reason.
 *
 * @example
 * ```ts
 * import { installEngine } from 'onnx-tapir';
 *
 * const { version, libraries } = await installEngine('openvino');
 * console.log(version, libraries); // 2026.4.1 /home/you/.cache/onnx-tapir/engines/openvino-2026.4.1/libs
 * ```
 */
export async function installEngine(
  name: InstallableEngine,
  given: Options<InstallOptions> = {},
): Promise<InstalledEngine> {
  const options = withDefaults(INSTALL_DEFAULTS, given, 'installEngine');
  return runInstall(await planInstall(name, options), options);
}

/**
 * Finds what to install, and where from. Nothing is downloaded but the index.
 *
 * @throws {@link TapirError} `DOWNLOAD_FAILED`, `OPTION_INVALID`; the signal's reason.
 */
export async function planInstall(name: InstallableEngine, options: InstallOptions): Promise<InstallPlan> {
  checkOneOf('name', name, Object.keys(ENGINE_PACKAGES));
  for (const option of ['indexUrl', 'wheel'] as const)
    if (options[option] !== undefined) checkText(option, options[option]);
  checkDownloadOptions(options);
  const folder = engineFolder(name);
  const installed = await findInstalledEngine(name);
  if (installed) return { name, folder, installed, wheel: null };
  const { wheel: path } = options;
  const wheel = path === undefined ? await findWheel(name, options) : await readLocalWheel(name, path);
  return { name, folder, installed, wheel };
}

async function readLocalWheel(name: InstallableEngine, given: string): Promise<PlannedWheel> {
  const { project, version } = ENGINE_PACKAGES[name];
  const path = resolve(given);
  const filename = basename(path);
  const parsed = parseWheelName(filename);
  const platform = readPlatform();
  if (
    parsed?.project !== project ||
    parsed.version !== version ||
    !chooseWheel([{ filename, name: parsed }], platform)
  )
    throw invalidOption(
      'wheel',
      `a wheel of ${project} ${version} for ${describePlatform(platform)}, with its name`,
      given,
    );
  const sizeBytes = await sizeOfFile(path);
  if (sizeBytes === null) throw invalidOption('wheel', 'an existing file', given);
  return { filename, sha256: await sha256OfFile(path), sizeBytes, from: { path } };
}

/** Asks the indexes in order. The first one with a wheel for this platform is used. */
async function findWheel(name: InstallableEngine, options: InstallOptions): Promise<PlannedWheel> {
  const { project, version } = ENGINE_PACKAGES[name];
  const platform = readPlatform();
  const reasons: string[] = [];
  const indexes = await readPackageIndexes(options.indexUrl);
  for (const index of indexes) {
    const all = await listWheels(index, project, options);
    const wheels =
      all?.filter((wheel) => wheel.name.project === project && wheel.name.version === version) ?? [];
    const kept = wheels.filter(({ yanked }) => yanked === null);
    const wheel = chooseWheel(kept, platform);
    const where = `${labelOfUrl(index.url)} (${index.from})`;
    if (wheel) return planWheel(wheel, where);
    reasons.push(`${where} ${whyNone(all, wheels, kept, `${project} ${version}`)}`);
  }
  const reason = `no wheel for ${describePlatform(platform)}: ${reasons.join('; ')}`;
  throw notFound(labelOfUrl(indexes[0]!.url), project, version, reason);
}

function whyNone(
  all: readonly IndexedWheel[] | undefined,
  wheels: readonly IndexedWheel[],
  kept: readonly IndexedWheel[],
  what: string,
): string {
  if (all === undefined) return 'does not have this project';
  if (wheels.length === 0) return `has no wheel of ${what}`;
  if (kept.length === 0) return `has withdrawn ${what}${wheels[0]!.yanked ? ` (${wheels[0]!.yanked})` : ''}`;
  const platforms = new Set(kept.flatMap(({ name }) => name.platforms));
  return `has wheels for ${Array.from(platforms).toSorted().join(', ')}`;
}

function planWheel(
  { filename, sha256, sizeBytes, url, authorization }: IndexedWheel,
  index: string,
): PlannedWheel {
  if (sha256 !== null) return { filename, sha256, sizeBytes, from: { url, authorization, index } };
  const reason =
    'the index does not state its SHA-256; download it yourself and pass it with --wheel (wheel)';
  const label = labelOfUrl(url);
  throw new TapirError('DOWNLOAD_FAILED', `cannot download ${label}: ${reason}`, {
    details: { url: label, reason },
  });
}

function notFound(
  url: string,
  project: string,
  version: string,
  reason: string,
): TapirError<'DOWNLOAD_FAILED'> {
  return new TapirError('DOWNLOAD_FAILED', `cannot download ${project} ${version}: ${reason}`, {
    details: { url, reason },
  });
}

/**
 * Does what a plan says.
 *
 * @throws {@link TapirError} as {@link installEngine}.
 */
export async function runInstall(
  { name, installed, wheel, folder }: InstallPlan,
  options: InstallOptions,
): Promise<InstalledEngine> {
  if (installed !== null || wheel === null) return installed!;
  const lock = await lockEngines(name);
  try {
    // Another process may have installed it since it was planned.
    const other = await findInstalledEngine(name);
    if (other) return other;
    if ('path' in wheel.from) await unpackEngine(name, wheel, wheel.from.path, folder, options.signal);
    else {
      const path = await fetchWheel(wheel, dirname(folder), options);
      try {
        await unpackEngine(name, wheel, path, folder, options.signal);
        await rm(path, { force: true });
      } catch (error) {
        // After other errors, such as a full disk, the next attempt does not download it again.
        if (isTapirError(error, 'PACKAGE_INVALID')) await rm(path, { force: true });
        throw error;
      }
    }
  } finally {
    await lock.release();
  }
  const done = await findInstalledEngine(name);
  if (!done) throw unwritable(folder, new Error('its files changed while they were installed'));
  return done;
}

/** Downloads a wheel, unless an interrupted installation has done it, and checks it. */
async function fetchWheel(wheel: PlannedWheel, root: string, options: InstallOptions): Promise<string> {
  const { filename, sha256, sizeBytes, from } = wheel;
  const path = join(root, filename);
  if ('path' in from || ((await sizeOfFile(path)) !== null && (await sha256OfFile(path)) === sha256))
    return path;
  const { url, authorization } = from;
  const partial = new PartialFile(path);
  await downloadFile({ name: filename, url, sizeBytes, sha256 }, partial, { ...options, authorization });
  const actual = await sha256OfFile(partial.path);
  if (actual !== sha256) {
    await partial.discard();
    throw checksumMismatch(url, path, sha256, actual);
  }
  await partial.finish();
  return path;
}

/** Unpacks into a folder of another name, which gets its final name when everything is on disk. */
async function unpackEngine(
  name: InstallableEngine,
  { filename, sha256 }: PlannedWheel,
  path: string,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const temporary = remnantOf(folder, 'new');
  try {
    await mkdir(temporary).catch((error: unknown) => {
      throw unwritable(temporary, error);
    });
    const sizes = await unpackWheel(path, temporary, WHEEL_CONTENTS[name], signal);
    const record: EngineRecord = { wheel: filename, sha256, sizes };
    await writeAtomically(join(temporary, ENGINE_RECORD), Buffer.from(JSON.stringify(record, null, 2)));
    await placeEngine(temporary, folder);
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}
