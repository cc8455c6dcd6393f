/** The engines that are installed in the cache folder. */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { unwritable } from '../../../base/atomic-file.js';
import {
  ENGINE_LIBRARIES,
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  enginesFolder,
  startOfWheel,
  type InstallableEngine,
} from '../../../base/engine-packages.js';
import { lockFolder, type FolderLock } from '../../../base/folder-lock.js';
import { makeFolder } from '../../../base/make-folder.js';
import { sizeOfFile } from '../partial-file.js';
import type { PinnedWheel } from './engine-wheels.js';

/** An engine whose libraries are installed. */
export interface InstalledEngine {
  readonly name: InstallableEngine;
  readonly version: string;
  readonly folder: string;
  /** Folder of the shared libraries, inside `folder`. */
  readonly libraries: string;
  readonly sizeBytes: number;
  /** The wheels that the libraries come from. */
  readonly wheels: readonly PinnedWheel[];
}

/** The content of the record, which is written after all other files. */
export interface EngineRecord {
  readonly wheels: readonly PinnedWheel[];
  /** The size of each file, by its path in the folder. */
  readonly sizes: Readonly<Record<string, number>>;
}

/**
 * Finds the pinned version of an engine; null if it is not installed, if one of its files is missing or has another size, or if one
 * of its packages has another version.
 */
export async function findInstalledEngine(name: InstallableEngine): Promise<InstalledEngine | null> {
  const folder = engineFolder(name);
  const { wheels, sizes } = (await readRecord(folder)) ?? {};
  if (!sizes || !Array.isArray(wheels) || !isPinned(name, wheels)) return null;
  for (const [file, size] of Object.entries(sizes))
    if ((await sizeOfFile(join(folder, file))) !== size) return null;
  const sizeBytes = Object.values(sizes).reduce((sum, size) => sum + size, 0);
  const { version } = ENGINE_PACKAGES[name];
  return { name, version, folder, libraries: join(folder, ENGINE_LIBRARIES), sizeBytes, wheels };
}

/** Whether each package of an engine was installed in its pinned version. */
function isPinned(name: InstallableEngine, wheels: readonly Partial<PinnedWheel>[]): boolean {
  return ENGINE_PACKAGES[name].packages.every((one) =>
    wheels.some(({ filename = '' }) => filename.startsWith(startOfWheel(one))),
  );
}

async function readRecord(folder: string): Promise<Partial<EngineRecord> | null> {
  try {
    return JSON.parse(await readFile(join(folder, ENGINE_RECORD), 'utf8')) as Partial<EngineRecord> | null;
  } catch {
    return null;
  }
}

/** Folders that an interrupted installation or removal left behind. */
const IS_REMNANT = /^\.(?:new|gone)-/;

/** Returns a name for a folder that is not complete yet (`new`), or about to be deleted (`gone`). */
export function remnantOf(folder: string, kind: 'new' | 'gone'): string {
  return join(dirname(folder), `.${kind}-${process.pid}-${randomBytes(6).toString('hex')}`);
}

/** Creates and locks the folder of all engines, and removes what interrupted runs left behind. Throws `OUTPUT_LOCKED`, `OUTPUT_UNWRITABLE`. */
export async function lockEngines(): Promise<FolderLock> {
  const root = enginesFolder();
  await makeFolder(root);
  const lock = await lockFolder(root);
  const names = await readdir(root).catch(() => []);
  for (const left of names.filter((other) => IS_REMNANT.test(other)))
    await rm(join(root, left), { recursive: true, force: true }).catch(() => undefined);
  return lock;
}

/**
 * Removes all versions of an engine, and the wheels of unfinished installations; returns their paths. Throws `OUTPUT_LOCKED` while an engine
 * is being installed; `OUTPUT_UNWRITABLE`, on Windows also while a process uses the engine.
 */
export async function removeEngine(name: InstallableEngine): Promise<string[]> {
  await using _lock = await lockEngines();
  const root = enginesFolder();
  const names = (await readdir(root)).filter((other) => isOf(name, other));
  for (const other of names) await discardEngine(join(root, other));
  return names.map((other) => join(root, other));
}

/** Whether a name in the folder of all engines is a version of an engine, or a download of one of its packages. */
function isOf(name: InstallableEngine, other: string): boolean {
  if (other.startsWith(`${name}-`) && /^\d/.test(other.slice(name.length + 1))) return true;
  const project = /^(\w+)-.*\.whl(?:\.partial(?:\.json)?)?$/.exec(other)?.[1]?.replaceAll('_', '-');
  return ENGINE_PACKAGES[name].packages.some((one) => one.project === project);
}

/** Removes the folder of an engine, if it exists. It is renamed first, so that no process sees it half deleted. Throws `OUTPUT_UNWRITABLE`. */
export async function discardEngine(folder: string): Promise<void> {
  const gone = remnantOf(folder, 'gone');
  try {
    await rename(folder, gone);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw unwritable(folder, error);
  }
  await rm(gone, { recursive: true, force: true }).catch(() => undefined);
}
