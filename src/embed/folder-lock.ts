/** One process at a time writes to a dataset. */
import { createHash } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { TapirError } from '../errors.js';
import { unwritable } from './sinks/atomic-file.js';

/** The lock's name in a dataset. */
export const LOCK_FILE = '.tapir-lock';

/** Who holds a lock. Process numbers are used again; with the start time, and the boot, they are not. */
interface Holder {
  readonly host: string;
  /** Null where the system has none. */
  readonly boot: string | null;
  readonly pid: number;
  /** When the process was started, in the system's own unit; null where it does not tell. */
  readonly started: string | null;
  /** Tells two locks of one process apart. */
  readonly nonce: string;
}

/** The right to write to a dataset, until it is released. */
export class FolderLock {
  readonly #path: string;
  readonly #text: string;

  private constructor(path: string, text: string) {
    this.#path = path;
    this.#text = text;
  }

  /**
   * Takes the lock of a folder; one that was left by a process that has ended is replaced.
   *
   * @throws {@link TapirError} `OUTPUT_LOCKED` while another process holds it; `OUTPUT_UNWRITABLE`.
   */
  static async acquire(folder: string): Promise<FolderLock> {
    const path = join(folder, LOCK_FILE);
    const holder = await describeSelf();
    const text = `${JSON.stringify(holder)}\n`;
    const own = `${path}.${holder.nonce}`;
    try {
      await writeFile(own, text, { flag: 'wx' });
      // A link appears with its content and fails where there is one; a created file would be empty for a moment.
      for (;;) {
        if (await linkNew(own, path)) return new FolderLock(path, text);
        await removeStale(path, own);
      }
    } catch (error) {
      throw error instanceof TapirError ? error : unwritable(path, error);
    } finally {
      await rm(own, { force: true }).catch(() => undefined);
    }
  }

  /** Gives the lock back, if it still is this one. */
  async release(): Promise<void> {
    const text = await readFile(this.#path, 'utf8').catch(() => undefined);
    if (text === this.#text) await rm(this.#path, { force: true }).catch(() => undefined);
  }
}

/** Checks that nobody holds the lock of a folder. Throws `OUTPUT_LOCKED`. */
export async function checkUnlocked(folder: string): Promise<void> {
  const path = join(folder, LOCK_FILE);
  const found = await readIfThere(path);
  if (found === undefined) return;
  const holder = parseHolder(found);
  if (holder === undefined || (await isAlive(holder))) throw locked(path, holder);
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
  // A file system without links.
  try {
    await writeFile(to, await readFile(from), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Takes a stale lock out of the way; throws if it is held. Who does it has a claim on this very lock, as else one of two that find
 * it stale would remove what the other has put in its place.
 */
async function removeStale(path: string, own: string): Promise<void> {
  const found = await readIfThere(path);
  if (found === undefined) return;
  const holder = parseHolder(found);
  // A file that is no lock yet is one that is being written where there are no links.
  if (holder === undefined || (await isAlive(holder))) throw locked(path, holder);
  const claim = `${path}.claim-${createHash('sha256').update(found).digest('hex').slice(0, 16)}`;
  if (!(await linkNew(own, claim))) {
    const claimant = parseHolder((await readIfThere(claim)) ?? '');
    // It died in the middle of this.
    if (claimant && !(await isAlive(claimant))) await rm(claim, { force: true });
    return;
  }
  try {
    if ((await readIfThere(path)) === found) await rm(path, { force: true });
  } finally {
    await rm(claim, { force: true });
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

function parseHolder(text: string): Holder | undefined {
  try {
    const holder = JSON.parse(text) as Partial<Holder> | null;
    return typeof holder?.pid === 'number' && typeof holder.host === 'string'
      ? (holder as Holder)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Of another machine nothing is known: it counts as alive. */
async function isAlive({ host, boot, pid, started }: Holder): Promise<boolean> {
  if (host !== hostname()) return true;
  if (boot !== null && boot !== (await bootId())) return false;
  if (started !== null) return started === (await startOf(pid));
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Somebody else's process.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function describeSelf(): Promise<Holder> {
  const { pid } = process;
  const [boot, started] = await Promise.all([bootId(), startOf(pid)]);
  return { host: hostname(), boot, pid, started, nonce: crypto.randomUUID() };
}

/** Linux and those that follow it; null elsewhere. */
async function bootId(): Promise<string | null> {
  return readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
    (text) => text.trim(),
    () => null,
  );
}

/**
 * When a process was started: field 22 of its stat, behind a name that may hold anything; null if it is not there, or has ended and
 * nobody has asked how (a container without an init keeps such).
 */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return /[ZXx]/.test(fields[0] ?? '') ? null : (fields[19] ?? null);
}

function locked(path: string, holder: Holder | undefined): TapirError<'OUTPUT_LOCKED'> {
  const who = holder ? `process ${holder.pid} on ${holder.host}` : 'another process';
  return new TapirError(
    'OUTPUT_LOCKED',
    `another run is writing here: ${who} holds "${path}"; wait for it, or delete that file if it has ended`,
    { details: { path, host: holder?.host ?? null, pid: holder?.pid ?? null } },
  );
}
