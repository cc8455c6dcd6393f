/** CUDA and cuDNN from a folder: loaded beforehand, since setting LD_LIBRARY_PATH in a running process is too late. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { readLibrary } from './elf.js';
import { loadLibrary } from './shared-library.js';

/** Opened by the provider only when a model needs them, since onnxruntime 1.28. */
const OPTIONAL = /^lib(cudnn|cufft)\.so\.\d+$/;

const loaded = new Map<string, ReadonlySet<string>>();

/**
 * Loads what a library needs from a folder, with all that this needs in turn.
 *
 * @param folder - Searched recursively.
 * @param library - The library that is going to be loaded; its own needs are read from it.
 * @returns Names of the loaded libraries.
 * @throws {@link TapirError} `OPTION_INVALID` if the folder is missing or holds none of the needed libraries.
 */
export function preloadLibraries(folder: string, library: string): ReadonlySet<string> {
  const key = `${folder}\0${library}`;
  const before = loaded.get(key);
  if (before) return before;
  const files = indexLibraries(folder);
  const needed = readLibrary(library)?.needed ?? [];
  if (needed.length > 0 && !needed.some((name) => files.has(name)))
    throw invalidOption('cudaLibraries', `a folder with some of ${needed.join(', ')}`, folder);
  const optional = [...files.keys()].filter((name) => OPTIONAL.test(name));
  const wanted = collectNeeds([...needed, ...optional], files);
  const done = loadInOrder(wanted);
  loaded.set(key, done);
  return done;
}

/** Checks the folder without reading it. Throws `OPTION_INVALID`. */
export function checkLibraryFolder(folder: string): void {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw invalidOption('cudaLibraries', 'a folder that exists', folder);
}

/** Shared libraries below a folder by file name; of several of one name the first path. */
function indexLibraries(folder: string): Map<string, string> {
  checkLibraryFolder(folder);
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && /\.so(\.\d+)*$/.test(entry.name))
    .map((entry) => ({ name: entry.name, path: join(entry.parentPath, entry.name) }))
    .toSorted((a, b) => (a.path < b.path ? 1 : -1));
  return new Map(paths.map(({ name, path }) => [name, path]));
}

/** The files among `files` that are needed, directly or by one that is. */
function collectNeeds(needed: readonly string[], files: ReadonlyMap<string, string>): Map<string, string> {
  const wanted = new Map<string, string>();
  const open = [...needed];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const path = files.get(name);
    if (path === undefined || wanted.has(name)) continue;
    wanted.set(name, path);
    open.push(...(readLibrary(path)?.needed ?? []), ...openedLater(name, files));
  }
  return wanted;
}

/** What a library opens by name while it runs, and so does not say that it needs: cuDNN its parts, and the run-time compiler. */
function openedLater(name: string, files: ReadonlyMap<string, string>): string[] {
  const major = /^libcudnn\.so\.(\d+)$/.exec(name)?.[1];
  if (major === undefined) return [];
  const parts = new RegExp(`^libcudnn_\\w+\\.so\\.${major}$|^libnvrtc(-builtins)?\\.so\\.\\d`);
  return [...files.keys()].filter((file) => parts.test(file));
}

/** Each library loads only after those it needs: tried again as long as any does. */
function loadInOrder(wanted: ReadonlyMap<string, string>): Set<string> {
  const done = new Set<string>();
  for (let before = -1; before < done.size;) {
    before = done.size;
    for (const [name, path] of wanted) if (!done.has(name) && loadLibrary(path) === undefined) done.add(name);
  }
  return done;
}
