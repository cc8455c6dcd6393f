/**
 * Loads CUDA and cuDNN from a folder before the provider needs them: LD_LIBRARY_PATH cannot be changed in a running process.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { readLibrary } from './elf.js';
import { loadLibrary } from './shared-library.js';

/** Since onnxruntime 1.28, the provider opens these only when a model needs them. */
const OPTIONAL = /^lib(cudnn|cufft)\.so\.\d+$/;

const loaded = new Map<string, ReadonlySet<string>>();

/**
 * Loads the libraries that another library needs from a folder, and the libraries that those need.
 *
 * @param folder - Searched recursively.
 * @param library - The library that will be loaded later. It lists the libraries that it needs.
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

/** Shared libraries in a folder and its subfolders, by file name. If a name occurs several times, the first path counts. */
function indexLibraries(folder: string): Map<string, string> {
  checkLibraryFolder(folder);
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && /\.so(\.\d+)*$/.test(entry.name))
    .map((entry) => ({ name: entry.name, path: join(entry.parentPath, entry.name) }))
    .toSorted((a, b) => (a.path < b.path ? 1 : -1));
  return new Map(paths.map(({ name, path }) => [name, path]));
}

/** The files that are needed directly or by a needed file. */
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

/** Libraries that a library opens by name at run time, so that it does not list them: for cuDNN its parts and the run-time compiler. */
function openedLater(name: string, files: ReadonlyMap<string, string>): string[] {
  const major = /^libcudnn\.so\.(\d+)$/.exec(name)?.[1];
  if (major === undefined) return [];
  const parts = new RegExp(`^libcudnn_\\w+\\.so\\.${major}$|^libnvrtc(-builtins)?\\.so\\.\\d`);
  return [...files.keys()].filter((file) => parts.test(file));
}

/** Loads all libraries. A library loads only after those that it needs, so failed ones are tried again as long as others load. */
function loadInOrder(wanted: ReadonlyMap<string, string>): Set<string> {
  const done = new Set<string>();
  for (let before = -1; before < done.size;) {
    before = done.size;
    for (const [name, path] of wanted) if (!done.has(name) && loadLibrary(path) === undefined) done.add(name);
  }
  return done;
}
