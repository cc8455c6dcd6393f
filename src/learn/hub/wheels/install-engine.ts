/** Installs an engine: finds the wheels with its libraries, downloads and checks them, and unpacks what the engine needs. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { publish, unwritable, writeAtomically } from '../../../base/atomic-file.js';
import { checkOneOf, checkText, invalidOption, type Options } from '../../../base/checks.js';
import {
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  enginesFolder,
  type EnginePackage,
  type InstallableEngine,
} from '../../../base/engine-packages.js';
import { isTapirError } from '../../../base/errors.js';
import { readGlibcVersion } from '../../../base/glibc-version.js';
import { optional, readOptions, type Fields } from '../../../base/options.js';
import { DOWNLOAD_FIELDS, type DownloadOptions } from '../download-file.js';
import { WHEEL_CONTENTS } from './engine-files.js';
import { ENGINE_WHEELS, type WheelTable } from './engine-wheels.js';
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

export interface InstallOptions extends DownloadOptions {
  /** A Python package index or its mirror; may contain user and password. Undefined: `PIP_INDEX_URL`, else the public index. */
  readonly indexUrl: string | undefined;
  /** Paths of all wheels, for a machine without a network. No index is asked. */
  readonly wheel: string | readonly string[] | undefined;
}

export const INSTALL_FIELDS: Fields<InstallOptions> = {
  ...DOWNLOAD_FIELDS,
  indexUrl: optional(checkText, 'mirror of the Python package index (default: PIP_INDEX_URL, else PyPI)'),
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
  readonly options: InstallOptions;
}

/**
 * Finds what to install, and where from: the engine OpenVINO, or what onnxruntime needs for NVIDIA GPUs (`cuda`: its provider, CUDA and
 * cuDNN; Linux x64). Nothing is downloaded but pages of the index. Throws `DOWNLOAD_FAILED`, `OPTION_INVALID`; `CHECKSUM_MISMATCH`
 * for a given file.
 *
 * @param table - The wheels that may be installed; tests have smaller ones.
 */
export async function planInstall(
  name: InstallableEngine,
  given: Options<InstallOptions>,
  table: WheelTable = ENGINE_WHEELS,
): Promise<InstallPlan> {
  const options = readOptions(INSTALL_FIELDS, given, 'installEngine');
  checkOneOf('name', name, Object.keys(ENGINE_PACKAGES));
  const pinned = table.get(checkSystem(name)) ?? [];
  const { wheel: paths, indexUrl } = options;
  const folder = engineFolder(name);
  const installed = await findInstalledEngine(name);
  const findOne = (one: EnginePackage): Promise<FoundWheel> =>
    paths === undefined
      ? findWheel(one, pinned, indexUrl, options)
      : readLocalWheel(one, pinned, [paths].flat());
  const wheels: PlannedWheel[] = [];
  for (const one of installed === null ? ENGINE_PACKAGES[name].packages : [])
    wheels.push({ package: one, wheel: await findOne(one) });
  return { name, folder, installed, wheels, options };
}

function checkPaths(option: string, value: unknown): readonly string[] {
  return [value].flat().map((path) => checkText(option, path));
}

/** Returns this system, as the table names it. Throws `OPTION_INVALID` if the engine is not for it. */
function checkSystem(name: InstallableEngine): string {
  const { systems } = ENGINE_PACKAGES[name];
  const system = `${process.platform} ${process.arch}`;
  const glibc = process.platform === 'linux' ? readGlibcVersion() : null;
  const needed = systems[system];
  if (needed === null || (needed !== undefined && glibc !== null && isAtLeast(glibc, needed))) return system;
  const ours = process.platform === 'linux' ? `${system}, ${withGlibc(glibc)}` : system;
  const all = Object.entries(systems).map(
    ([one, least]) => one + (least === null ? '' : ` (glibc ${least})`),
  );
  throw invalidOption('name', `an engine for ${ours} ("${name}" is for ${all.join(', ')})`, name);
}

function withGlibc(glibc: string | null): string {
  return glibc === null ? 'without glibc' : `glibc ${glibc}`;
}

/** Whether a version, such as `2.36`, is another one or later. */
function isAtLeast(version: string, least: string): boolean {
  return version.localeCompare(least, 'en', { numeric: true }) >= 0;
}

/**
 * Does what a plan says. Only the needed libraries and their licences are unpacked, into `engines` in the user's cache folder.
 *
 * @throws {@link TapirError} `DOWNLOAD_FAILED`; `CHECKSUM_MISMATCH`, after the wrong file is deleted; `PACKAGE_INVALID` for a wheel that is
 * damaged or unsafe; `OUTPUT_LOCKED` while another process installs an engine; `OUTPUT_UNWRITABLE`; the signal's reason.
 */
export async function runInstall(plan: InstallPlan): Promise<InstalledEngine> {
  const { name, installed, wheels, folder, options } = plan;
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
