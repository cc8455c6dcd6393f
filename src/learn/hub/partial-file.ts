/** A file that is being downloaded: its bytes so far in `FILE.partial`, and their origin in `FILE.partial.json`. */
import { readFile, rm, stat } from 'node:fs/promises';
import { AtomicFile, PARTIAL_ENDING, publish, writeAtomically } from '../../base/atomic-file.js';

interface PartialRecord {
  readonly url: string;
  /** A strong ETag or a date, for `If-Range`; null if the server sent neither. */
  readonly validator: string | null;
}

/** Returns the size of a file in bytes; null if there is no such file. */
export async function sizeOfFile(path: string): Promise<number | null> {
  return stat(path).then(
    (stats) => (stats.isFile() ? stats.size : null),
    () => null,
  );
}

/** A download in progress. Methods that write throw `OUTPUT_UNWRITABLE`. */
export class PartialFile {
  /** Where the bytes so far lie. */
  readonly path: string;
  readonly #target: string;

  constructor(target: string) {
    this.#target = target;
    this.path = target + PARTIAL_ENDING;
  }

  get #recordPath(): string {
    return `${this.path}.json`;
  }

  /**
   * Returns how many bytes a download can keep, and their validator. Without a checksum, which tells if two versions of the file are mixed,
   * only bytes that have a validator are kept.
   */
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

  /** Opens the file for writing: an empty one at offset 0, else the bytes so far. */
  async open(offset: number, record: PartialRecord): Promise<AtomicFile> {
    if (offset === 0) {
      await this.discard();
      await writeAtomically(this.#recordPath, Buffer.from(JSON.stringify(record)));
    }
    return AtomicFile.resume(this.#target, offset);
  }

  /** Gives the complete file its name. */
  async finish(): Promise<void> {
    await publish(this.path, this.#target);
    await rm(this.#recordPath, { force: true });
  }

  async discard(): Promise<void> {
    await rm(this.path, { force: true });
    await rm(this.#recordPath, { force: true });
  }
}
