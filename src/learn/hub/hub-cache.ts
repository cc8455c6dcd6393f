/**
 * The cache that Hugging Face's libraries share. A folder `models--ORG--REPO/` has the files by content in `blobs/`, links to them by name
 * in `snapshots/COMMIT/`, and the commit of each branch or tag in `refs/`.
 */
import { lstat, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { copyAtomically, writeAtomically } from '../../base/atomic-file.js';
import { makeFolder } from '../../base/make-folder.js';
import { sizeOfFile } from './partial-file.js';

export const IS_GIT_HASH: RegExp = /^[0-9a-f]{40}$/;

/** A repository's part of the cache. */
export class CachedRepository {
  readonly folder: string;
  /** Folder of the lock files. */
  readonly lockFolder: string;

  constructor(cacheFolder: string, repository: string) {
    const name = ['models', ...repository.split('/')].join('--');
    this.folder = join(cacheFolder, name);
    this.lockFolder = join(cacheFolder, '.locks', name);
  }

  blob(etag: string): string {
    return join(this.folder, 'blobs', etag);
  }

  /** Path of a file by its name. Names never leave the folder: their callers check them. */
  file(commit: string, name: string): string {
    return join(this.folder, 'snapshots', commit, ...name.split('/'));
  }

  /** Returns the commit that a revision had at the last pull; null if it was never pulled. */
  async readCommit(revision: string): Promise<string | null> {
    if (IS_GIT_HASH.test(revision)) return revision;
    const text = await readFile(join(this.folder, 'refs', ...revision.split('/')), 'utf8').catch(() => '');
    return IS_GIT_HASH.test(text.trim()) ? text.trim() : null;
  }

  async writeCommit(revision: string, commit: string): Promise<void> {
    if (revision === commit || (await this.readCommit(revision)) === commit) return;
    const path = join(this.folder, 'refs', ...revision.split('/'));
    await makeFolder(dirname(path));
    await writeAtomically(path, Buffer.from(commit));
  }

  /** Lists the cached files of a commit by name, without broken links. */
  async listFiles(commit: string): Promise<string[]> {
    const root = join(this.folder, 'snapshots', commit);
    const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
    const paths = entries.map((entry) => join(entry.parentPath, entry.name));
    const sizes = await Promise.all(paths.map(sizeOfFile));
    const there = paths.filter((_path, i) => sizes[i] !== null);
    return there.map((path) => relative(root, path).split(sep).join('/'));
  }

  /**
   * Gives a blob its name in a commit: a relative link. Where the system has no links, a new blob moves there, as in Python's
   * library, and another one is copied.
   */
  async link(etag: string, commit: string, name: string, isNew: boolean): Promise<void> {
    const [blob, path] = [this.blob(etag), this.file(commit, name)];
    const target = relative(dirname(path), blob);
    if ((await readlink(path).catch(() => null)) === target) return;
    await makeFolder(dirname(path));
    try {
      await rm(path, { force: true });
      await symlink(target, path, 'file');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // Another process was faster.
      if (code === 'EEXIST' && resolve(dirname(path), (await readlink(path).catch(() => '')) || '.') === blob)
        return;
      if (isNew) await rename(blob, path).catch(() => copyAtomically(blob, path));
      else await copyAtomically(blob, path);
    }
  }

  /** Creates the folder of blobs, and marks the cache so that backup programs skip it. */
  async prepare(): Promise<void> {
    await makeFolder(join(this.folder, 'blobs'));
    const tag = join(dirname(this.folder), 'CACHEDIR.TAG');
    if (await lstat(tag).catch(() => null)) return;
    const text =
      'Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache: https://bford.info/cachedir/\n';
    await writeAtomically(tag, Buffer.from(text));
  }
}
