/** One process at a time writes to a dataset. */
import { join } from 'node:path';
import { TapirError } from '../base/errors.js';
import { checkUnlocked as checkLock, ProcessLock, type LockHolder } from '../base/process-lock.js';
import { unwritable } from '../base/atomic-file.js';

/** The lock's name in a dataset. */
export const LOCK_FILE = '.tapir-lock';

/**
 * Takes the lock of a folder; one that was left by a process that has ended is replaced.
 *
 * @throws {@link TapirError} `OUTPUT_LOCKED` while another process holds it; `OUTPUT_UNWRITABLE`.
 */
export async function lockFolder(folder: string): Promise<ProcessLock> {
  const path = join(folder, LOCK_FILE);
  try {
    return await ProcessLock.acquire(path, locked);
  } catch (error) {
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
}

/** Checks that nobody holds the lock of a folder. Throws `OUTPUT_LOCKED`. */
export async function checkUnlocked(folder: string): Promise<void> {
  await checkLock(join(folder, LOCK_FILE), locked);
}

function locked(path: string, holder: LockHolder | undefined): TapirError<'OUTPUT_LOCKED'> {
  const who = holder ? `process ${holder.pid} on ${holder.host}` : 'another process';
  return new TapirError(
    'OUTPUT_LOCKED',
    `another run is writing here: ${who} holds "${path}"; wait for it, or delete that file if it has ended`,
    { details: { path, host: holder?.host ?? null, pid: holder?.pid ?? null } },
  );
}
