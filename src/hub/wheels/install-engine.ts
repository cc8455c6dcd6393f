/** Installs an engine: finds the wheels with its libraries, downloads and checks them, and unpacks what the engine needs. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { publish, unwritable, writeAtomically } from '../../base/atomic-file.js';
import { checkOneOf, checkText, invalidOption, type Options } from '../../base/checks.js';
import {
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  enginesFolder,
  type EnginePackage,
  type InstallableEngine,
} from '../../base/engine-packages.js';
import { isTapirError } from '../../base/errors.js';
import { optional, readOptions, type Fields } from '../../base/options.js';
import { DOWNLOAD_FIELDS, type DownloadOptions } from '../download-file.js';
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
   * Path of the wheel that you have downloaded, for a machine without a network; of all wheels if there are several. No index is
   * asked.
   * @default undefined
   */
  readonly wheel: string | readonly string[] | undefined;
}

export const INSTALL_FIELDS: Fields<InstallOptions> = {
  ...DOWNLOAD_FIELDS,
  indexUrl: optional(
    checkText,
    'package index (default: PIP_INDEX_URL, pip’s configuration, the public index)',
  ),
  wheel: optional(checkPaths),
};

/** A pinned package, and its wheel for this platform. */
export interface PlannedWheel {
  readonly package: EnginePackage;
  readonly wheel: FoundWheel;
}

/** What an installation does: it installs the wheels, of which there are none if the engine is installed already. */
export interface InstallPlan {
  readonly name: InstallableEngine;
  readonly folder: string;
  readonly installed: InstalledEngine | null;
  readonly wheels: readonly PlannedWheel[];
}

/**
 * Installs libraries that do not come with this package: the engine OpenVINO, or what onnxruntime needs for NVIDIA GPUs (`cuda`:
 * its provider, CUDA and cuDNN; Linux x64). What is there and complete is not installed again.
 *
 * @remarks The libraries come from wheels, the package format of Python; Python itself is not needed. The versions are pinned by
 * this package. A wheel's SHA-256 must be the one that the index states. Only the needed libraries and their licences are
 * unpacked, into `engines` in the user's cache folder of onnx-tapir. An interrupted download resumes where it stopped. The proxy
 * of the environment is used (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`), and the package index of `PIP_INDEX_URL`
 * or pip's configuration files.
 *
 * @param name - The engine, or `cuda`.
 * @param given - See {@link InstallOptions}.
 * @returns The engine in its folder.
 * @throws {@link TapirError} `DOWNLOAD_FAILED`, also if there is no wheel for this platform; `CHECKSUM_MISMATCH`, after the wrong file is deleted;
 * `PACKAGE_INVALID` for a wheel that is damaged or unsafe; `OUTPUT_LOCKED` while another process installs an engine;
 * `OUTPUT_UNWRITABLE`; `OPTION_INVALID`; the signal's reason.
 */
export async function installEngine(
  name: InstallableEngine,
  given: Options<InstallOptions> = {},
): Promise<InstalledEngine> {
  const options = readOptions(INSTALL_FIELDS, given, 'installEngine');
  return runInstall(await planInstall(name, options), options);
}

/** Finds what to install, and where from. Nothing is downloaded but the index. Throws `DOWNLOAD_FAILED`, `OPTION_INVALID`. */
export async function planInstall(name: InstallableEngine, options: InstallOptions): Promise<InstallPlan> {
  checkOneOf('name', name, Object.keys(ENGINE_PACKAGES));
  checkSystem(name);
  const { wheel: paths, indexUrl } = options;
  const folder = engineFolder(name);
  const installed = await findInstalledEngine(name);
  const wheels: PlannedWheel[] = [];
  for (const one of installed === null ? ENGINE_PACKAGES[name].packages : [])
    wheels.push({
      package: one,
      wheel:
        paths === undefined
          ? await findWheel(one, indexUrl, options)
          : await readLocalWheel(one, [paths].flat()),
    });
  return { name, folder, installed, wheels };
}

function checkPaths(option: string, value: unknown): readonly string[] {
  return [value].flat().map((path) => checkText(option, path));
}

function checkSystem(name: InstallableEngine): void {
  const { systems } = ENGINE_PACKAGES[name];
  const system = `${process.platform} ${process.arch}`;
  if (systems?.includes(system) === false)
    throw invalidOption('name', `an engine for ${system} ("${name}" is for ${systems.join(', ')})`, name);
}

/** Does what a plan says. Throws as {@link installEngine}. */
export async function runInstall(
  { name, installed, wheels, folder }: InstallPlan,
  options: InstallOptions,
): Promise<InstalledEngine> {
  if (installed !== null) return installed;
  await using _lock = await lockEngines();
  // Another process may have installed it since it was planned.
  const other = await findInstalledEngine(name);
  if (other) return other;
  await installWheels(wheels, folder, options);
  const done = await findInstalledEngine(name);
  if (!done) throw unwritable(folder, new Error('its files changed while they were installed'));
  return done;
}

interface FetchedWheel extends PlannedWheel {
  readonly path: string;
  /** Whether it was downloaded, so that it is deleted afterwards. */
  readonly isOurs: boolean;
}

/** Downloads all wheels before it unpacks the first one: after a broken connection, the next call goes on with the same file. */
async function installWheels(
  wheels: readonly PlannedWheel[],
  folder: string,
  options: InstallOptions,
): Promise<void> {
  const fetched: FetchedWheel[] = [];
  for (const planned of wheels) {
    const { from } = planned.wheel;
    if ('path' in from) fetched.push({ ...planned, path: from.path, isOurs: false });
    else {
      const path = await fetchWheel(planned.wheel, from, enginesFolder(), options);
      fetched.push({ ...planned, path, isOurs: true });
    }
  }
  await unpackEngine(fetched, folder, options.signal);
}

/** Unpacks into a folder of another name, which gets its final name when everything is on disk. */
async function unpackEngine(
  fetched: readonly FetchedWheel[],
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const temporary = remnantOf(folder, 'new');
  try {
    await mkdir(temporary).catch((error: unknown) => {
      throw unwritable(temporary, error);
    });
    const sizes: Record<string, number> = {};
    for (const one of fetched) Object.assign(sizes, await unpackOne(one, temporary, signal));
    const wheels = fetched.map(({ wheel: { filename, sha256 } }) => ({ filename, sha256 }));
    const record: EngineRecord = { wheels, sizes };
    await writeAtomically(join(temporary, ENGINE_RECORD), Buffer.from(JSON.stringify(record, null, 2)));
    // First: once the engine is there, no later call looks at its wheels.
    for (const { path, isOurs } of fetched) if (isOurs) await rm(path, { force: true });
    await discardEngine(folder);
    await publish(temporary, folder);
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function unpackOne(
  { package: { project }, path, isOurs }: FetchedWheel,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<Record<string, number>> {
  try {
    return await unpackWheel(path, folder, WHEEL_CONTENTS.get(project)!, signal);
  } catch (error) {
    // After other errors, such as a full disk, the next call does not download it again.
    if (isOurs && isTapirError(error, 'PACKAGE_INVALID')) await rm(path, { force: true });
    throw error;
  }
}
