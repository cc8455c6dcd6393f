/** Only one process at a time writes to a folder, or files that belong together: it holds a lock file there. */
import { link, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AtomicFile, outputExists, unwritable, writeAfter } from './atomic-file.js';
import { digestOf } from './digest.js';
import { TapirError } from './errors.js';
import { identifyProcess, isRunning, parseIdentity, type ProcessIdentity } from './process-identity.js';

/** Name of the lock file. Names that begin with it and a dot belong to the lock too, and exist for a moment only. */
export const LOCK_FILE = '.tapir-lock';

/** A lock that this process holds. */
export class FolderLock implements AsyncDisposable {
  readonly #path: string;
  readonly #text: string;

  constructor(path: string, text: string) {
    this.#path = path;
    this.#text = text;
  }

  /** Removes the lock file, unless another process has replaced it. */
  async release(): Promise<void> {
    const text = await readFile(this.#path, 'utf8').catch(() => undefined);
    if (text === this.#text) await rm(this.#path, { force: true }).catch(() => undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/** Takes the lock of a folder; replaces one of a dead process. Throws `OUTPUT_LOCKED` if another process holds it; `OUTPUT_UNWRITABLE`. */
export function lockFolder(folder: string): Promise<FolderLock> {
  const path = join(folder, LOCK_FILE);
  return lock(path, path);
}

/** Takes the lock of a file and of those that belong to it, such as its weights: two writers would mix them. Throws as {@link lockFolder}. */
export function lockOutput(path: string): Promise<FolderLock> {
  const name = digestOf(basename(path)).slice(0, 16);
  return lock(join(dirname(path), `${LOCK_FILE}-${name}`), path);
}

/**
 * Writes a file and a small one that belongs to it, such as the transform of a model.
 *
 * @remarks Both are complete under temporary names before the old file is removed; then the small one gets its name, and the file last.
 * So a file that is there has its own small one, whenever the process is killed.
 * @param write - Writes the file. If it fails before that moment, everything is as before.
 * @throws {@link TapirError} `OUTPUT_EXISTS` for a small file of another content, unless it may be overwritten; `OUTPUT_LOCKED`;
 * `OUTPUT_UNWRITABLE`; what `write` throws.
 */
export async function writeWithCompanion(
  path: string,
  content: Uint8Array,
  overwrite: boolean,
  write: () => Promise<void>,
): Promise<void> {
  await using _lock = await lockOutput(path);
  const before = await readFile(path).catch(() => undefined);
  if (before?.equals(content) === true) return write();
  if (before && !overwrite) throw outputExists(path);
  const companion = await AtomicFile.create(path);
  try {
    await companion.append(content);
    await companion.pause();
    let isNamed = false;
    const name = async (file?: string): Promise<void> => {
      if (file !== undefined) await rm(file, { force: true });
      isNamed = true;
      await companion.finish();
    };
    try {
      await writeAfter(name, write);
    } catch (error) {
      if (isNamed) await rm(path, { force: true });
      throw error;
    }
    if (!isNamed) await name();
  } finally {
    await companion.discard();
  }
}

/** @param output - What the lock protects, for messages. */
async function lock(path: string, output: string): Promise<FolderLock> {
  try {
    return await acquire(path);
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(output, error);
  }
}

/** Checks that no process holds the lock of a folder. Throws `OUTPUT_LOCKED` if one does. */
export async function checkUnlocked(folder: string): Promise<void> {
  await readStaleLock(join(folder, LOCK_FILE));
}

async function acquire(path: string): Promise<FolderLock> {
  // The nonce tells two locks of one process apart.
  const holder = { ...(await identifyProcess()), nonce: crypto.randomUUID() };
  const text = `${JSON.stringify(holder)}\n`;
  const own = `${path}.${holder.nonce}`;
  try {
    await writeFile(own, text, { flag: 'wx' });
    // A link appears together with its content, and fails if the name exists. A created file would be empty for a moment.
    while (!(await linkNew(own, path))) await removeStale(path, own);
  } finally {
    await rm(own, { force: true }).catch(() => undefined);
  }
  await removeRemnants(path);
  return new FolderLock(path, text);
}

async function linkNew(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'ENOSYS') throw error;
  }
  // This file system has no links.
  try {
    await writeFile(to, await readFile(from), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Removes a stale lock file; throws if a process holds the lock. Of two processes that find the same stale lock, one could
 * remove the new lock of the other. So the remover first claims this very lock file.
 */
async function removeStale(path: string, own: string): Promise<void> {
  const found = await readStaleLock(path);
  if (found === undefined) return;
  const claim = `${path}.claim-${digestOf(found).slice(0, 16)}`;
  if (!(await linkNew(own, claim))) {
    const claimant = parseIdentity((await readIfThere(claim)) ?? '');
    if (claimant && !(await isRunning(claimant))) await rm(claim, { force: true });
    return;
  }
  try {
    if ((await readIfThere(path)) === found) await rm(path, { force: true });
  } finally {
    await rm(claim, { force: true });
  }
}

/** Returns the content of a stale lock file; undefined if there is no lock file. Throws `OUTPUT_LOCKED` if the lock is held. */
async function readStaleLock(path: string): Promise<string | undefined> {
  const found = await readIfThere(path);
  if (found === undefined) return undefined;
  const holder = parseIdentity(found);
  // Without links, a lock file is empty for a moment. So one that cannot be read counts as held.
  if (holder === undefined || (await isRunning(holder))) throw locked(path, holder);
  return found;
}

function locked(path: string, holder: ProcessIdentity | undefined): TapirError<'OUTPUT_LOCKED'> {
  const who = holder ? `process ${holder.pid} on ${holder.host}` : 'another process';
  const message = `another run is writing here: ${who} holds "${path}"; wait for it, or delete that file if it has ended`;
  return new TapirError('OUTPUT_LOCKED', message, {
    details: { path, host: holder?.host ?? null, pid: holder?.pid ?? null },
  });
}

/** A file of {@link acquire} or {@link removeStale} exists for milliseconds. An older one was left behind. */
const REMNANT_MS = 3_600_000;

/** Removes the files that processes left behind when they were killed while they took or removed the lock. */
async function removeRemnants(path: string): Promise<void> {
  const folder = dirname(path);
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((other) => other.startsWith(`${basename(path)}.`))) {
    const remnant = join(folder, name);
    try {
      const holder = parseIdentity(await readFile(remnant, 'utf8'));
      const ageMs = Date.now() - (await stat(remnant)).mtimeMs;
      if (ageMs > REMNANT_MS || (holder && !(await isRunning(holder)))) await rm(remnant, { force: true });
    } catch {
      // Its process has removed it, or this user may not: it does no harm.
    }
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
