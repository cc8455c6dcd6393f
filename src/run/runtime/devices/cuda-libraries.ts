/**
 * Loads CUDA and cuDNN from a folder before the provider needs them: LD_LIBRARY_PATH cannot be changed in a running process.
 */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { invalidOption } from '../../../base/checks.js';
import { readNeeded } from './elf.js';
import { loadLibrary } from './shared-library.js';

/** Since onnxruntime 1.28, the provider opens these only when a model needs them. */
const OPTIONAL = /^lib(cudnn|cufft)\.so\.\d+$/;

/** Opened by this name when a model has a convolution, so the provider's file does not list it. */
const CUDNN = 'libcudnn.so.9';
/** Libraries of the system and of the driver, which no folder of CUDA has. */
const OF_SYSTEM = /^(?:ld-linux|lib(?:c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda)\.so)/;

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
  const files = checkHolds(folder, library);
  const needed = readNeeded(library);
  const optional = [...files.keys()].filter((name) => OPTIONAL.test(name));
  const wanted = collectNeeds([...needed, ...optional], files);
  const done = loadInOrder(wanted);
  loaded.set(key, done);
  return done;
}

/**
 * Checks that a folder holds something that a library needs.
 *
 * @returns The libraries in the folder: paths by file name.
 * @throws {@link TapirError} `OPTION_INVALID` with the needed libraries, and with those of other versions that the folder has.
 */
export function checkHolds(folder: string, library: string): ReadonlyMap<string, string> {
  const files = indexLibraries(folder);
  const needed = readNeeded(library);
  if (needed.length === 0 || needed.some((name) => files.has(name))) return files;
  const wanted = needed.filter((name) => !OF_SYSTEM.test(name));
  const others = wanted.flatMap((name) => otherVersions(name, files)).map((path) => basename(path));
  const found = others.length === 0 ? '' : `, not of ${others.join(', ')}`;
  throw invalidOption('cudaLibraries', `a folder with some of ${wanted.join(', ')}${found}`, folder);
}

/**
 * Says which of CUDA's libraries a folder does not have.
 *
 * @param library - The provider.
 * @returns undefined if it has all; the reason also names other versions that it has.
 */
export function whyIncomplete(folder: string, library: string): string | undefined {
  const files = indexLibraries(folder);
  const needed = readNeeded(library);
  const wanted = new Set([...needed.filter((name) => !OF_SYSTEM.test(name)), CUDNN]);
  const missing = Array.from(wanted).filter((name) => !files.has(name));
  if (missing.length === 0) return undefined;
  const found = missing.flatMap((name) => otherVersions(name, files)).map((path) => basename(path));
  const others = found.length === 0 ? '' : ` (it has ${found.join(', ')})`;
  return `${folder} does not have ${missing.join(', ')}${others}`;
}

/** The files of a library in other versions: `libcublas.so.12` for `libcublas.so.13`. */
export function otherVersions(name: string, files: ReadonlyMap<string, string>): string[] {
  const stem = stemOf(name);
  return [...files].flatMap(([file, path]) => (file !== name && stemOf(file) === stem ? [path] : []));
}

function stemOf(name: string): string {
  return name.replace(/\.so(?:\.\d+)*$/, '');
}

/** Checks the folder without reading it. Throws `OPTION_INVALID`. */
export function checkLibraryFolder(folder: string): void {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw invalidOption('cudaLibraries', 'a folder that exists', folder);
}

/** Shared libraries in a folder and its subfolders, by file name. If a name occurs several times, the first path counts. */
export function indexLibraries(folder: string): Map<string, string> {
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
    open.push(...readNeeded(path), ...openedLater(name, files));
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
