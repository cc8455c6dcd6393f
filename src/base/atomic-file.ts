/** Files that appear complete or not at all: written under a temporary name, brought to disk, then renamed. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { constants, existsSync, statfsSync, statSync } from 'node:fs';
import { copyFile, lstat, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { TapirError, reasonOf } from './errors.js';

/** Throws `OUTPUT_EXISTS` if there is a file at the path. */
export function checkAbsent(target: string): void {
  // What is not a regular file is refused with its reason when it is written.
  if (!isFile(target)) return;
  throw new TapirError(
    'OUTPUT_EXISTS',
    `"${target}" exists already; choose another name, or replace it with overwrite: true (tapir: --overwrite)`,
    { details: { path: target } },
  );
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

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
export function outputExists(path: string): TapirError<'OUTPUT_EXISTS'> {
  const message = `"${path}" exists already; remove it, or choose another name`;
  return new TapirError('OUTPUT_EXISTS', message, { details: { path } });
}

/** Ending of a file that can be continued, such as a download: its bytes so far lie at its path and this ending. */
export const PARTIAL_ENDING = '.partial';

/**
 * A file that is being written. All methods throw `OUTPUT_UNWRITABLE`, with the final path.
 *
 * @remarks The temporary name is unique and is created, never opened: two writers of one path do not share a file, and a file or a
 * link of the user is not touched.
 */
export class AtomicFile {
  /** The final path. */
  readonly path: string;
  /** Where the bytes lie until the file is finished. */
  readonly temporary: string;
  readonly #handle: FileHandle;
  #end: number;
  #isOpen = true;

  private constructor(path: string, temporary: string, handle: FileHandle, end: number) {
    this.path = path;
    this.temporary = temporary;
    this.#handle = handle;
    this.#end = end;
  }

  static create(path: string): Promise<AtomicFile> {
    return AtomicFile.#open(path, temporaryName(path), 'wx', 0);
  }

  /**
   * Opens the file that {@link pause} left at the path and {@link PARTIAL_ENDING}, and keeps `offset` bytes; 0 makes a new one, under a
   * free name.
   */
  static resume(path: string, offset: number): Promise<AtomicFile> {
    // A link could lead to any file of the user.
    const flags = offset > 0 ? constants.O_RDWR | (constants.O_NOFOLLOW ?? 0) : 'wx';
    return AtomicFile.#open(path, path + PARTIAL_ENDING, flags, offset);
  }

  static async #open(
    path: string,
    temporary: string,
    flags: string | number,
    end: number,
  ): Promise<AtomicFile> {
    try {
      await checkReplaceable(path);
      const folder = dirname(resolve(path));
      if (!searched.has(folder)) await removeLeftovers(folder, LEFTOVER_MS);
      searched.add(folder);
      return new AtomicFile(path, temporary, await open(temporary, flags), end);
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

  /** Brings the bytes to disk and closes the file, which keeps its temporary name. */
  async pause(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    try {
      await this.#handle.sync();
    } catch (error) {
      throw unwritable(this.path, error);
    } finally {
      await this.#handle.close();
    }
  }

  /** Gives the file its final name, or another one there, after its bytes are on disk; when this returns, the name is on disk too. */
  async finish(path: string = this.path): Promise<void> {
    await this.pause();
    await publish(this.temporary, path);
  }

  /** Closes and removes the temporary file. Does nothing after {@link finish}. */
  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await rm(this.temporary, { force: true }).catch(() => undefined);
  }
}

/** Renaming over a device or a pipe would replace it. A name of spaces is a mistake, and hard to see and to remove. */
async function checkReplaceable(path: string): Promise<void> {
  if (basename(path).trim() === '') throw new Error('its name consists of spaces');
  const there = await stat(path).catch(() => undefined);
  if (there && !there.isFile()) throw new Error('it is not a regular file');
}

const TEMPORARY = /^\.tapir-\d+-[0-9a-f]{8}\.partial$/;

/** A hidden name in the same folder. It does not contain the file's own name, which may be as long as the system allows. */
function temporaryName(path: string): string {
  return join(dirname(path), `.tapir-${process.pid}-${randomBytes(4).toString('hex')}${PARTIAL_ENDING}`);
}

/** Whether a name is one that this package gives to a file until it is finished. */
export function isTemporary(name: string): boolean {
  return TEMPORARY.test(name);
}

/** A file that nobody has written to for this time belongs to a process that was killed. */
const LEFTOVER_MS = 86_400_000;
const searched = new Set<string>();

/**
 * Removes the temporary files that killed processes of this user left in a folder.
 *
 * @param ageMs - How long a file must not have been written to. 0 only where one process at a time writes.
 * @param own - The number of a process whose files stay.
 */
export async function removeLeftovers(folder: string, ageMs: number, own?: number): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const found = names.filter((name) => isTemporary(name) && !name.startsWith(`.tapir-${own}-`));
  for (const path of found.map((name) => join(folder, name))) {
    const found = await lstat(path).catch(() => undefined);
    const isOwn = found?.isFile() === true && found.uid === (process.getuid?.() ?? found.uid);
    // The time of a file has fractions, the clock has none.
    if (isOwn && Date.now() - Math.floor(found.mtimeMs) >= ageMs)
      await rm(path, { force: true }).catch(() => undefined);
  }
}

/** Gives a temporary file, whose bytes are on disk, its final name. Throws `OUTPUT_UNWRITABLE`. */
export async function publish(temporary: string, path: string): Promise<void> {
  await beforeNames.getStore()?.(path);
  try {
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw unwritable(path, error);
  }
}

const beforeNames = new AsyncLocalStorage<((path: string) => Promise<void>) | undefined>();

/** Writes files, and calls `before` once, with the path of the first of them, when that is complete and gets its name. */
export function writeAfter(
  before: (path: string) => Promise<void>,
  write: () => Promise<void>,
): Promise<void> {
  const outer = beforeNames.getStore();
  let done: Promise<void> | undefined;
  return beforeNames.run((path) => (done ??= beforeNames.run(outer, () => before(path))), write);
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
  await using handle = await open(path, flags);
  await handle.sync();
}

/**
 * Writes a whole file: its bytes, or what a function appends. If it fails, an earlier file of that name stays as it was, and no temporary
 * file remains. Throws `OUTPUT_UNWRITABLE`; what `content` throws.
 */
export async function writeAtomically(
  path: string,
  content: Uint8Array | ((file: AtomicFile) => Promise<void>),
): Promise<void> {
  const file = await AtomicFile.create(path);
  try {
    await (typeof content === 'function' ? content(file) : file.append(content));
    await file.finish();
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** Copies a file. The copy shares the disk space of the original where the file system can do that. Throws `OUTPUT_UNWRITABLE`. */
export async function copyAtomically(from: string, path: string): Promise<void> {
  await writeAtomically(path, async ({ temporary }) => {
    try {
      await copyFile(from, temporary, constants.COPYFILE_FICLONE);
    } catch (error) {
      throw unwritable(path, error);
    }
  });
}

/** Whether two files exist and hold the same bytes. */
export async function haveSameBytes(a: string, b: string): Promise<boolean> {
  try {
    await using one = await open(a);
    await using other = await open(b);
    const pieces = [Buffer.alloc(COMPARED_BYTES), Buffer.alloc(COMPARED_BYTES)] as const;
    if ((await one.stat()).size !== (await other.stat()).size) return false;
    for (let at = 0; ; at += COMPARED_BYTES) {
      const [first, second] = await Promise.all([
        one.read(pieces[0], 0, COMPARED_BYTES, at),
        other.read(pieces[1], 0, COMPARED_BYTES, at),
      ]);
      if (first.bytesRead !== second.bytesRead) return false;
      if (first.bytesRead === 0) return true;
      if (!pieces[0].subarray(0, first.bytesRead).equals(pieces[1].subarray(0, first.bytesRead)))
        return false;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

const COMPARED_BYTES = 1 << 20;
