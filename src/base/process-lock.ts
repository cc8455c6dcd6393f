/** A file that says which process is at work somewhere, so that no other is. */
import { createHash } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';

/** Who holds a lock. Process numbers are used again; with the start time, and the boot, they are not. */
export interface LockHolder {
  readonly host: string;
  /** Null where the system has none. */
  readonly boot: string | null;
  readonly pid: number;
  /** When the process was started, in the system's own unit; null where it does not tell. */
  readonly started: string | null;
  /** Tells two locks of one process apart. */
  readonly nonce: string;
}

/** The error for a lock that another process holds; undefined if it cannot be read who. */
export type LockedError = (path: string, holder: LockHolder | undefined) => Error;

/** A lock of this process, until it is released. */
export class ProcessLock {
  readonly #path: string;
  readonly #text: string;

  private constructor(path: string, text: string) {
    this.#path = path;
    this.#text = text;
  }

  /**
   * Takes a lock; one that was left by a process that has ended is replaced.
   *
   * @param path - The lock's file; others of names that begin with its own lie beside it for a moment.
   * @throws What `locked` makes of it while another process holds it; what the file system says.
   */
  static async acquire(path: string, locked: LockedError): Promise<ProcessLock> {
    const holder = await describeSelf();
    const text = `${JSON.stringify(holder)}\n`;
    const own = `${path}.${holder.nonce}`;
    try {
      await writeFile(own, text, { flag: 'wx' });
      // A link appears with its content and fails where there is one; a created file would be empty for a moment.
      for (;;) {
        if (await linkNew(own, path)) return new ProcessLock(path, text);
        await removeStale(path, own, locked);
      }
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

/**
 * Checks that nobody holds a lock.
 *
 * @returns What is in the file of one that is stale; undefined if there is none.
 * @throws What `locked` makes of one that is held; what the file system says.
 */
export async function checkUnlocked(path: string, locked: LockedError): Promise<string | undefined> {
  const found = await readIfThere(path);
  if (found === undefined) return undefined;
  const holder = parseHolder(found);
  // A file that is no lock yet is one that is being written where there are no links.
  if (holder === undefined || (await isAlive(holder))) throw locked(path, holder);
  return found;
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
async function removeStale(path: string, own: string, locked: LockedError): Promise<void> {
  const found = await checkUnlocked(path, locked);
  if (found === undefined) return;
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

function parseHolder(text: string): LockHolder | undefined {
  try {
    const holder = JSON.parse(text) as Partial<LockHolder> | null;
    if (typeof holder?.pid !== 'number' || typeof holder.host !== 'string') return undefined;
    const { host, pid, boot = null, started = null, nonce = '' } = holder;
    return { host, pid, boot, started, nonce };
  } catch {
    return undefined;
  }
}

/** Of another machine nothing is known: it counts as alive. */
async function isAlive({ host, boot, pid, started }: LockHolder): Promise<boolean> {
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

async function describeSelf(): Promise<LockHolder> {
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
