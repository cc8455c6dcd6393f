/** Files that appear complete or not at all: written under a temporary name, brought to disk, then renamed. */
import { randomBytes } from 'node:crypto';
import { constants, existsSync, statfsSync } from 'node:fs';
import { copyFile, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { TapirError, reasonOf } from './errors.js';

/** Makes the error for a path that cannot be written. It gives the system's reason, and how much space a full disk has. */
export function unwritable(path: string, error: unknown): TapirError<'OUTPUT_UNWRITABLE'> {
  const { code = '' } = (error ?? {}) as NodeJS.ErrnoException;
  const free = code === 'ENOSPC' ? freeBytes(dirname(path)) : null;
  const reason = free === null ? systemReason(path, error) : `no space left (${free} bytes are free)`;
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  const advice = isFull ? '; free some space and run the same command again to resume' : '';
  return new TapirError('OUTPUT_UNWRITABLE', `cannot write "${path}": ${reason}${advice}`, {
    details: { path, reason },
    cause: error,
  });
}

/** The system's reason. It leaves out the call and the temporary name, which is not the one that the user gave. */
function systemReason(path: string, error: unknown): string {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  const folder = dirname(path);
  if (code === 'ENOENT' && !existsSync(folder))
    return `there is no folder "${folder}" (ENOENT); create it first`;
  const reason = reasonOf(error);
  return syscall === undefined ? reason : reason.replace(new RegExp(`, ${syscall}(?: '.*')?$`, 's'), '');
}

/** Returns the bytes that the file system of a folder has free for this user; null if it does not say. */
export function freeBytes(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}

/** Makes the error for an output path at which something exists already. */
export function outputExists(path: string, cause?: unknown): TapirError<'OUTPUT_EXISTS'> {
  const message = `"${path}" exists already; remove it, or choose another name`;
  return new TapirError('OUTPUT_EXISTS', message, { details: { path }, cause });
}

/** Ending of temporary names. A file with this ending is being written, or an interrupted run left it behind. */
export const PARTIAL_ENDING = '.partial';

/** How an {@link AtomicFile} is created. */
export interface AtomicOptions {
  /**
   * Use a temporary name that no other process uses, for a path that several processes may write at the same time. Otherwise
   * the name is the path and {@link PARTIAL_ENDING}, and the next run writes over what an interrupted run left behind.
   */
  readonly isShared?: boolean;
  /** Continue the temporary file of an interrupted run after this many bytes. */
  readonly resumeAt?: number;
}

/** A file that is being written. All methods throw `OUTPUT_UNWRITABLE`, with the final path. */
export class AtomicFile {
  /** The final path. */
  readonly path: string;
  readonly #temporary: string;
  readonly #handle: FileHandle;
  #end: number;

  private constructor(path: string, temporary: string, handle: FileHandle, end: number) {
    this.path = path;
    this.#temporary = temporary;
    this.#handle = handle;
    this.#end = end;
  }

  static async create(
    path: string,
    { isShared = false, resumeAt = 0 }: AtomicOptions = {},
  ): Promise<AtomicFile> {
    try {
      await checkReplaceable(path);
      const temporary = isShared ? uniqueName(path) : path + PARTIAL_ENDING;
      const flags = resumeAt > 0 ? 'r+' : isShared ? 'wx' : 'w';
      return new AtomicFile(path, temporary, await open(temporary, flags), resumeAt);
    } catch (error) {
      throw unwritable(path, error);
    }
  }

  /** The number of bytes so far. */
  get size(): number {
    return this.#end;
  }

  async append(bytes: Uint8Array): Promise<void> {
    await this.overwrite(this.#end, bytes);
    this.#end += bytes.byteLength;
  }

  /** Writes at an offset. */
  async overwrite(offset: number, bytes: Uint8Array): Promise<void> {
    try {
      // A single write may write fewer bytes, for example on a nearly full disk.
      for (let done = 0; done < bytes.byteLength;) {
        done += (await this.#handle.write(bytes, done, bytes.byteLength - done, offset + done)).bytesWritten;
      }
    } catch (error) {
      throw unwritable(this.path, error);
    }
  }

  /** Brings the bytes to disk and closes the file, which keeps its temporary name: `resumeAt` continues it. */
  async pause(): Promise<void> {
    try {
      await this.#handle.sync();
    } catch (error) {
      throw unwritable(this.path, error);
    } finally {
      await this.#handle.close();
    }
  }

  /** Gives the file its final name, after its bytes are on disk; when this returns, the name is on disk too. */
  async finish(): Promise<void> {
    await this.pause();
    await publish(this.#temporary, this.path);
  }

  /** Closes and removes the temporary file. Does nothing after {@link finish}. */
  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await rm(this.#temporary, { force: true }).catch(() => undefined);
  }
}

/** Renaming over a device or a pipe would replace it. */
async function checkReplaceable(path: string): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there && !there.isFile()) throw new Error('it is not a regular file');
}

/** A hidden name in the same folder. It does not contain the file's own name, which may be as long as the system allows. */
function uniqueName(path: string): string {
  return join(dirname(path), `.tapir-${process.pid}-${randomBytes(4).toString('hex')}${PARTIAL_ENDING}`);
}

/**
 * Gives a temporary file, whose bytes are on disk, its final name.
 *
 * @throws {@link TapirError} `OUTPUT_UNWRITABLE`.
 */
export async function publish(temporary: string, path: string): Promise<void> {
  try {
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw unwritable(path, error);
  }
}

/** The error codes of systems and file systems that cannot sync a folder (Windows, some network drives). */
const NO_FOLDER_SYNC = new Set(['EACCES', 'EBADF', 'EINVAL', 'EISDIR', 'ENOSYS', 'ENOTSUP', 'EPERM']);

/** Brings the names in a folder to disk, if the system can. */
async function syncFolder(path: string): Promise<void> {
  try {
    await sync(path, 'r');
  } catch (error) {
    if (!NO_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/** Brings a file that other code has written to disk. */
export async function syncFile(path: string): Promise<void> {
  await sync(path, 'r+');
}

async function sync(path: string, flags: 'r' | 'r+'): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Writes a whole file. If it fails, an earlier file of that name stays as it was, and no temporary file remains.
 *
 * @param content - The bytes, or a function that appends them.
 * @throws {@link TapirError} `OUTPUT_UNWRITABLE`; what `content` throws.
 */
export async function writeAtomically(
  path: string,
  content: Uint8Array | ((file: AtomicFile) => Promise<void>),
  options: AtomicOptions = {},
): Promise<void> {
  const file = await AtomicFile.create(path, options);
  try {
    await (typeof content === 'function' ? content(file) : file.append(content));
    await file.finish();
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/**
 * Copies a file. The copy shares the disk space of the original where the file system can do that.
 *
 * @throws {@link TapirError} `OUTPUT_UNWRITABLE`.
 */
export async function copyAtomically(from: string, path: string): Promise<void> {
  const temporary = uniqueName(path);
  try {
    await checkReplaceable(path);
    await copyFile(from, temporary, constants.COPYFILE_FICLONE);
    await syncFile(temporary);
    await publish(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error instanceof TapirError ? error : unwritable(path, error);
  }
}

/**
 * Creates an empty file. If several processes try at the same time, exactly one succeeds.
 *
 * @throws {@link TapirError} `OUTPUT_EXISTS` if the path exists; `OUTPUT_UNWRITABLE`.
 */
export async function reserveFile(path: string): Promise<void> {
  try {
    await (await open(path, 'wx')).close();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST'
      ? outputExists(path, error)
      : unwritable(path, error);
  }
}
