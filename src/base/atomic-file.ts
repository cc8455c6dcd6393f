/** A file that is complete or not there: written under a temporary name, synced, renamed. */
import { open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { TapirError, reasonOf } from './errors.js';

/** The error for a place that cannot be written, with the system's reason. */
export function unwritable(path: string, error: unknown): TapirError<'OUTPUT_UNWRITABLE'> {
  const reason = reasonOf(error);
  const isFull = ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | null)?.code ?? '');
  const advice = isFull ? '; make room and run the same command again: it goes on from what is finished' : '';
  return new TapirError('OUTPUT_UNWRITABLE', `cannot write "${path}": ${reason}${advice}`, {
    details: { path, reason },
    cause: error,
  });
}

/** Ending of files that are being written; whatever carries it is left over from an interrupted run. */
export const PARTIAL_ENDING = '.partial';

/** A file under way. All methods throw `OUTPUT_UNWRITABLE`. */
export class AtomicFile {
  readonly path: string;
  readonly #handle: FileHandle;
  #end = 0;

  constructor(path: string, handle: FileHandle) {
    this.path = path;
    this.#handle = handle;
  }

  static async create(path: string): Promise<AtomicFile> {
    try {
      return new AtomicFile(path, await open(path + PARTIAL_ENDING, 'w'));
    } catch (error) {
      throw unwritable(path, error);
    }
  }

  /** Bytes appended so far. */
  get size(): number {
    return this.#end;
  }

  async append(bytes: Uint8Array): Promise<void> {
    await this.overwrite(this.#end, bytes);
    this.#end += bytes.byteLength;
  }

  /** Writes at an offset. A single write may take less than it was given. */
  async overwrite(offset: number, bytes: Uint8Array): Promise<void> {
    try {
      for (let done = 0; done < bytes.byteLength;) {
        done += (await this.#handle.write(bytes, done, bytes.byteLength - done, offset + done)).bytesWritten;
      }
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  /** Gives the file its name, content first on disk; then the name is on disk too. */
  async finish(): Promise<void> {
    try {
      await this.#handle.sync();
      await this.#handle.close();
      await rename(this.path + PARTIAL_ENDING, this.path);
      await syncFolder(dirname(this.path));
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  /** Removes what was written. */
  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await rm(this.path + PARTIAL_ENDING, { force: true }).catch(() => undefined);
  }
}

/** What systems and file systems answer that cannot sync a folder (Windows, some network drives). */
const NO_FOLDER_SYNC = new Set(['EACCES', 'EBADF', 'EINVAL', 'EISDIR', 'ENOSYS', 'ENOTSUP', 'EPERM']);

/** Brings the names in a folder to disk, where the system allows it. */
async function syncFolder(path: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, 'r');
    await handle.sync();
  } catch (error) {
    if (!NO_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await handle?.close();
  }
}

/** Writes a whole file at once. */
export async function writeAtomically(path: string, bytes: Uint8Array): Promise<void> {
  const file = await AtomicFile.create(path);
  try {
    await file.append(bytes);
    await file.finish();
  } catch (error) {
    await file.discard();
    throw error;
  }
}
