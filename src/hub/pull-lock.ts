/** A lock on a folder, so that two pulls do not write the same file. */
import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { downloadFailed } from './open-url.js';

const LOCK = '.pull-lock';

/** Who holds a lock. */
interface Holder {
  readonly pid: number;
  readonly host: string;
}

/**
 * Locks a folder; a lock that a dead process of this machine has left is taken over.
 *
 * @returns What gives it back.
 * @throws {@link TapirError} `DOWNLOAD_FAILED` if another pull holds it.
 */
export async function lockFolder(folder: string, url: string): Promise<() => Promise<void>> {
  const path = join(folder, LOCK);
  const own: Holder = { pid: process.pid, host: hostname() };
  for (let attempt = 0; ; attempt++) {
    try {
      await writeFile(path, JSON.stringify(own), { flag: 'wx' });
      return () => rm(path, { force: true });
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
      const holder = await readHolder(path);
      if (attempt > 0 || holder === null || isAlive(holder)) {
        const who = holder === null ? 'another process' : `process ${holder.pid} on ${holder.host}`;
        throw downloadFailed(url, `${who} is pulling it (if that is not so, remove "${path}")`);
      }
      // Renamed first: of two that take it over, one finds it gone.
      const stale = `${path}-${randomBytes(6).toString('hex')}`;
      await rename(path, stale).catch(() => undefined);
      await rm(stale, { force: true });
    }
  }
}

async function readHolder(path: string): Promise<Holder | null> {
  try {
    const holder = JSON.parse(await readFile(path, 'utf8')) as Partial<Holder> | null;
    return typeof holder?.pid === 'number' && typeof holder.host === 'string'
      ? { pid: holder.pid, host: holder.host }
      : null;
  } catch {
    return null;
  }
}

function isAlive({ pid, host }: Holder): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
