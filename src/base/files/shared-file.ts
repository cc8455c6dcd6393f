/** A file with several readers. It is open while at least one of them needs it. */
import { open, type FileHandle } from 'node:fs/promises';

/** A read of 2 GiB or more in one call aborts the process (an assertion of Node.js). */
const MOST_PER_READ = 2 ** 30;

/** Reads ranges of a file. */
export class SharedFile {
  readonly path: string;
  #opening: Promise<FileHandle> | undefined;
  #holders = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** Keeps the file open during a step, so that not every range opens it again. */
  async hold<Result>(step: (handle: FileHandle) => Promise<Result>): Promise<Result> {
    const handle = await this.acquire();
    try {
      return await step(handle);
    } finally {
      await this.release();
    }
  }

  /** Keeps the file open until the matching {@link release}. */
  async acquire(): Promise<FileHandle> {
    this.#holders++;
    try {
      return await (this.#opening ??= open(this.path, 'r'));
    } catch (error) {
      this.#holders--;
      this.#opening = undefined;
      throw error;
    }
  }

  async release(): Promise<void> {
    if (--this.#holders > 0) return;
    const opening = this.#opening;
    this.#opening = undefined;
    await (await opening)?.close();
  }

  /** Reads a range. Returns fewer bytes if the file ends before it. */
  read(start: number, length: number): Promise<Buffer<ArrayBuffer>> {
    return this.hold(async (handle) => {
      // Not zeroed: only bytes that were read are returned.
      const bytes = Buffer.allocUnsafeSlow(length);
      let filled = 0;
      while (filled < length) {
        const most = Math.min(length - filled, MOST_PER_READ);
        const { bytesRead } = await handle.read(bytes, filled, most, start + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return bytes.subarray(0, filled);
    });
  }
}
