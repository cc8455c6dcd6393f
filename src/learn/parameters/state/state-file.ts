/** A file of weights. It is open only while it is read, and must stay the same between reads. */
import { type FileHandle, stat } from 'node:fs/promises';
import { TapirError, reasonOf } from '../../../base/errors.js';
import { stampOf } from '../../../base/file-stamp.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { checkMachine } from '../../../base/machine-failure.js';

/** Makes the error for a file of weights that cannot be used. */
export function invalidState(
  path: string,
  reason: string,
  { key, cause }: { readonly key?: string | undefined; readonly cause?: unknown } = {},
): TapirError<'STATE_INVALID'> {
  const what = key === undefined ? `"${path}"` : `tensor ${JSON.stringify(key)} of "${path}"`;
  return new TapirError('STATE_INVALID', `cannot read ${what}: ${reason}`, {
    details: { path, reason, ...(key === undefined ? {} : { key }) },
    cause,
  });
}

/** A file of weights, as it was when it was opened. */
export class StateFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly #file: SharedFile;
  readonly #stamp: string;

  private constructor(path: string, sizeBytes: number, stamp: string) {
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.#file = new SharedFile(path);
    this.#stamp = stamp;
  }

  /** @throws {@link TapirError} `STATE_INVALID` if there is no such file. */
  static async open(path: string): Promise<StateFile> {
    try {
      // Before it is opened: opening a named pipe would wait for its writer.
      const stats = await stat(path);
      if (!stats.isFile())
        throw new Error(stats.isDirectory() ? 'it is a folder' : 'it is not a regular file');
      return new StateFile(path, stats.size, stampOf(stats));
    } catch (error) {
      throw invalidState(path, reasonOf(error), { cause: error });
    }
  }

  /**
   * Runs a step that reads the file. The file stays open during the step.
   *
   * @param key - The tensor that the step reads.
   * @throws {@link TapirError} `MODEL_CHANGED` if the file was replaced, written to or removed; `STATE_INVALID` for other errors.
   */
  async read<Result>(step: (file: SharedFile) => Promise<Result>, key?: string): Promise<Result> {
    try {
      return await this.#file.hold(async (handle) => {
        await this.#checkUnchanged(handle);
        const result = await step(this.#file);
        await this.#checkUnchanged(handle);
        return result;
      });
    } catch (error) {
      if (error instanceof TapirError) throw error;
      checkMachine(error);
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw this.#changed();
      throw invalidState(this.path, reasonOf(error), { key, cause: error });
    }
  }

  async #checkUnchanged(handle: FileHandle): Promise<void> {
    if (stampOf(await handle.stat()) !== this.#stamp) throw this.#changed();
  }

  #changed(): TapirError<'MODEL_CHANGED'> {
    const message = `"${this.path}" changed on disk after it was opened; call readStateDict again`;
    return new TapirError('MODEL_CHANGED', message, { details: { source: this.path } });
  }
}

/** Reads a range that must lie in the file, into a buffer of exactly its size. */
export async function readRange(file: SharedFile, start: number, length: number): Promise<ArrayBuffer> {
  const bytes = await file.read(start, length);
  if (bytes.length < length) throw new Error('the file ends before its data does');
  return bytes.buffer;
}
