/** Folders for output. */
import { mkdir, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { unwritable } from './atomic-file.js';

/**
 * Creates a folder and the folders above it, by steps: Node's recursive mkdir never returns on a file system that reports the parent of a
 * new entry as missing (/proc). Throws `OUTPUT_UNWRITABLE`.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    if (/^\s+$/.test(basename(path))) throw new Error('its name consists of spaces');
    await make(path, mode);
  } catch (error) {
    throw unwritable(path, error);
  }
}

async function make(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, mode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') {
      if ((await stat(path)).isDirectory()) return;
      throw new Error('it is a file; name a folder', { cause: error });
    }
    if (code !== 'ENOENT') throw error;
    await make(dirname(path), mode);
    // Another process may have created either folder by now. A second ENOENT comes from a file system like /proc.
    await mkdir(path, mode).catch(async (again: unknown) => {
      if ((again as NodeJS.ErrnoException).code !== 'EEXIST' || !(await stat(path)).isDirectory())
        throw again;
    });
  }
}
