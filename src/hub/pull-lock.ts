/** A lock on a folder, so that two pulls do not write the same file. */
import { join } from 'node:path';
import { ProcessLock } from '../base/process-lock.js';
import { downloadFailed } from '../base/http.js';

const LOCK = '.pull-lock';

/**
 * Locks a folder; a lock that a dead process of this machine has left is taken over.
 *
 * @returns What gives it back.
 * @throws {@link TapirError} `DOWNLOAD_FAILED` if another pull holds it.
 */
export async function lockFolder(folder: string, url: string): Promise<() => Promise<void>> {
  const lock = await ProcessLock.acquire(join(folder, LOCK), (path, holder) => {
    const who = holder ? `process ${holder.pid} on ${holder.host}` : 'another process';
    return downloadFailed(url, `${who} is pulling it (if that is not so, remove "${path}")`);
  });
  return () => lock.release();
}
