/** A file that is being downloaded: its bytes so far in `FILE.partial`, and in `FILE.partial.json` of what they are a part. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename, rm, stat, statfs, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { reasonOf, TapirError } from '../base/errors.js';

/** What the bytes so far belong to. */
interface PartialRecord {
  readonly url: string;
  /** A strong ETag or a date, for `If-Range`; null if the server gave none. */
  readonly validator: string | null;
}

/** The error for a place that cannot be written; a full disk says how full. */
export async function unwritable(path: string, error: unknown): Promise<TapirError<'OUTPUT_UNWRITABLE'>> {
  const isFull = error instanceof Error && 'code' in error && error.code === 'ENOSPC';
  const free = isFull ? await freeBytes(dirname(path)) : null;
  const reason = free === null ? reasonOf(error) : `no space left (${free} bytes are free)`;
  return new TapirError('OUTPUT_UNWRITABLE', `cannot write "${path}": ${reason}`, {
    details: { path, reason },
    cause: error,
  });
}

/** Bytes that a folder's file system has free for this user; null where it does not say. */
export async function freeBytes(folder: string): Promise<number | null> {
  return statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => null,
  );
}

/** SHA-256 of a file, in hexadecimal digits. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** Size of a file in bytes; null if there is none. */
export async function sizeOfFile(path: string): Promise<number | null> {
  return stat(path).then(
    (stats) => (stats.isFile() ? stats.size : null),
    () => null,
  );
}

/** A download under way. Methods that write throw `OUTPUT_UNWRITABLE`. */
export class PartialFile {
  /** Where the bytes so far lie. */
  readonly path: string;
  readonly #target: string;

  constructor(target: string) {
    this.#target = target;
    this.path = `${target}.partial`;
  }

  get #recordPath(): string {
    return `${this.path}.json`;
  }

  /** How many bytes can be kept, and their validator; 0 if they are of another address or nothing would tell a mixture. */
  async resumable(
    url: string,
    hasChecksum: boolean,
  ): Promise<{ readonly bytes: number; readonly validator: string | null }> {
    const bytes = await sizeOfFile(this.path);
    const record = await this.#readRecord();
    if (bytes === null || record?.url !== url || (record.validator === null && !hasChecksum))
      return { bytes: 0, validator: null };
    return { bytes, validator: record.validator };
  }

  async #readRecord(): Promise<PartialRecord | null> {
    try {
      const record = JSON.parse(await readFile(this.#recordPath, 'utf8')) as Partial<PartialRecord> | null;
      if (typeof record?.url !== 'string') return null;
      return { url: record.url, validator: typeof record.validator === 'string' ? record.validator : null };
    } catch {
      return null;
    }
  }

  /** Opens it for writing: anew at offset 0, or to go on. */
  async open(offset: number, record: PartialRecord): Promise<FileHandle> {
    try {
      if (offset > 0) return await open(this.path, 'r+');
      await this.discard();
      await writeFile(this.#recordPath, JSON.stringify(record));
      return await open(this.path, 'w');
    } catch (error) {
      throw await unwritable(this.path, error);
    }
  }

  /** Gives the file its name. */
  async finish(): Promise<void> {
    try {
      await rename(this.path, this.#target);
      await rm(this.#recordPath, { force: true });
    } catch (error) {
      throw await unwritable(this.#target, error);
    }
  }

  /** Throws away what has arrived. */
  async discard(): Promise<void> {
    await rm(this.path, { force: true });
    await rm(this.#recordPath, { force: true });
  }
}
