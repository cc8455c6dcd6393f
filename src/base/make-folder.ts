/** Folders for output. */
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and the folders above it.
 *
 * @remarks Node's recursive mkdir never returns on a file system that reports the parent of a new entry as missing (/proc).
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT') throw error;
    await makeFolder(dirname(path));
    // Another process may have created either folder by now. A second ENOENT comes from a file system like /proc.
    await mkdir(path).catch(async (again: unknown) => {
      if ((again as NodeJS.ErrnoException).code !== 'EEXIST' || !(await stat(path)).isDirectory())
        throw again;
    });
  }
}
