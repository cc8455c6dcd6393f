/** Temporary folders, which do not outlive this process for long: what a killed one left behind, the next one removes. */
import { lstat, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { temporaryFailure, TEMPORARY_PREFIX } from './machine-failure.js';
import { identifyProcess, isRunning, parseIdentity } from './process-identity.js';

/** The file in each folder that says which process made it. */
const OWNER_FILE = 'owner.json';

/** A folder that only this user can read. It is removed when it goes out of scope. */
export class TemporaryFolder implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /** Makes a folder. Throws `OUTPUT_UNWRITABLE`, with the folder of temporary files. */
  static async create(): Promise<TemporaryFolder> {
    await cleanTemporary();
    owner ??= JSON.stringify(await identifyProcess());
    const path = await mkdtemp(join(tmpdir(), TEMPORARY_PREFIX)).catch((error: unknown) => {
      throw temporaryFailure(error);
    });
    const folder = new TemporaryFolder(path);
    await folder.write(OWNER_FILE, owner);
    return folder;
  }

  /** Writes a file and returns its path. Removes the folder and throws `OUTPUT_UNWRITABLE` if that fails. */
  async write(name: string, content: Uint8Array | string): Promise<string> {
    const path = join(this.path, name);
    try {
      await writeFile(path, content, { mode: 0o600 });
      return path;
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw temporaryFailure(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}

let owner: string | undefined;
let cleaned: Promise<void> | undefined;

/** Removes, once per thread, the folders of this user whose process has ended. What cannot be removed does no harm. */
export function cleanTemporary(): Promise<void> {
  return (cleaned ??= removeStaleFolders());
}

export async function removeStaleFolders(): Promise<void> {
  const names = await readdir(tmpdir()).catch(() => []);
  for (const name of names.filter((other) => other.startsWith(TEMPORARY_PREFIX))) {
    const path = join(tmpdir(), name);
    try {
      const stats = await lstat(path);
      if (!stats.isDirectory() || stats.uid !== (process.getuid?.() ?? stats.uid)) continue;
      const owner = parseIdentity(await readFile(join(path, OWNER_FILE), 'utf8'));
      if (owner && !(await isRunning(owner))) await rm(path, { recursive: true, force: true });
    } catch {
      // Its process is making or removing it.
    }
  }
}
