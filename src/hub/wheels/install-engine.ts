/** Installs an engine: finds the wheel with its libraries, downloads and checks it, and unpacks what the engine needs. */
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { publish, unwritable, writeAtomically } from '../../base/atomic-file.js';
import { checkOneOf, checkText, withDefaults, type Options } from '../../base/checks.js';
import {
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  type InstallableEngine,
} from '../../base/engine-packages.js';
import { isTapirError } from '../../base/errors.js';
import { checkDownloadOptions, DOWNLOAD_DEFAULTS, type DownloadOptions } from '../download-file.js';
import { WHEEL_CONTENTS } from './engine-files.js';
import { fetchWheel, findWheel, readLocalWheel, type FoundWheel } from './find-wheel.js';
import {
  discardEngine,
  findInstalledEngine,
  lockEngines,
  remnantOf,
  type EngineRecord,
  type InstalledEngine,
} from './installed-engine.js';
import { unpackWheel } from './unpack-wheel.js';

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

/** What an installation does: it installs a wheel, or nothing if the engine is installed already. */
export type InstallPlan = { readonly name: InstallableEngine; readonly folder: string } & (
  | { readonly installed: null; readonly wheel: FoundWheel }
  | { readonly installed: InstalledEngine; readonly wheel: null }
);

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
  if (installed !== null) return { name, folder, installed, wheel: null };
  const { wheel: path, indexUrl } = options;
  const pinned = ENGINE_PACKAGES[name];
  const wheel =
    path === undefined ? await findWheel(pinned, indexUrl, options) : await readLocalWheel(pinned, path);
  return { name, folder, installed, wheel };
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
  if (installed !== null) return installed;
  const lock = await lockEngines(name);
  try {
    // Another process may have installed it since it was planned.
    const other = await findInstalledEngine(name);
    if (other) return other;
    await installWheel(wheel, name, folder, options);
  } finally {
    await lock.release();
  }
  const done = await findInstalledEngine(name);
  if (!done) throw unwritable(folder, new Error('its files changed while they were installed'));
  return done;
}

async function installWheel(
  wheel: FoundWheel,
  name: InstallableEngine,
  folder: string,
  options: InstallOptions,
): Promise<void> {
  const { from } = wheel;
  if ('path' in from) return unpackEngine(wheel, from.path, name, folder, options.signal);
  const path = await fetchWheel(wheel, from, dirname(folder), options);
  try {
    await unpackEngine(wheel, path, name, folder, options.signal);
    await rm(path, { force: true });
  } catch (error) {
    // After other errors, such as a full disk, the next call does not download it again.
    if (isTapirError(error, 'PACKAGE_INVALID')) await rm(path, { force: true });
    throw error;
  }
}

/** Unpacks into a folder of another name, which gets its final name when everything is on disk. */
async function unpackEngine(
  { filename, sha256 }: FoundWheel,
  path: string,
  name: InstallableEngine,
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
    await discardEngine(folder);
    await publish(temporary, folder);
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}
