/**
 * The CUDA provider, CUDA and cuDNN that `tapir engines install cuda` brings, and how onnxruntime comes to use them where they lie.
 * onnxruntime looks for its provider in the folder of its own library, by the path that the loader got. So that library is loaded through a
 * link in a folder that also has the provider, before onnxruntime-node is loaded.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { namesIn } from '../../../base/folder-names.js';
import {
  ENGINE_LIBRARIES,
  ENGINE_PACKAGES,
  ENGINE_RECORD,
  engineFolder,
  enginesFolder,
} from '../../../base/engine-packages.js';
import { reasonOf } from '../../../base/errors.js';
import { bindingFolder, findRuntimePackage } from '../runtime-package.js';
import { loadLibrary } from './shared-library.js';

/** The command that installs the libraries, or repairs them. */
export const INSTALL_CUDA = 'tapir engines install cuda';

/** Whether {@link INSTALL_CUDA} works on this system. */
export const CAN_INSTALL_CUDA: boolean =
  `${process.platform} ${process.arch}` in ENGINE_PACKAGES.cuda.systems;

const RUNTIME = 'libonnxruntime.so.1';
const PROVIDERS = ['libonnxruntime_providers_shared.so', 'libonnxruntime_providers_cuda.so'];

/**
 * Returns the folder of the installed libraries; undefined if they are not installed, or not for the version of onnxruntime-node.
 * They appear complete, but may have been damaged since: {@link whyNotInstalledCuda} looks at each.
 */
export function installedCuda(): string | undefined {
  if (!CAN_INSTALL_CUDA || findRuntimePackage()?.version !== ENGINE_PACKAGES.cuda.version) return undefined;
  const folder = engineFolder('cuda');
  return existsSync(join(folder, ENGINE_RECORD)) ? join(folder, ENGINE_LIBRARIES) : undefined;
}

/** Why the installed libraries cannot be used; undefined if they can, or if there are none. */
export function whyNotInstalledCuda(): string | undefined {
  const libraries = installedCuda();
  if (libraries === undefined) return whyOtherVersion();
  const folder = dirname(libraries);
  const bad = damagedFiles(folder);
  if (bad.length === 0) return undefined;
  return `${bad.join(', ')} in ${folder} ${bad.length === 1 ? 'is' : 'are'} missing or damaged; install again with "${INSTALL_CUDA}"`;
}

/** The libraries that are not as they were installed. */
function damagedFiles(folder: string): string[] {
  try {
    const record = JSON.parse(readFileSync(join(folder, ENGINE_RECORD), 'utf8')) as {
      readonly sizes: Readonly<Record<string, number>>;
    };
    return Object.entries(record.sizes)
      .filter(([file, size]) => statSync(join(folder, file), { throwIfNoEntry: false })?.size !== size)
      .map(([file]) => file);
  } catch {
    return [ENGINE_RECORD];
  }
}

/** Whether libraries were installed for another onnxruntime. */
function whyOtherVersion(): string | undefined {
  const runtime = findRuntimePackage()?.version;
  if (!CAN_INSTALL_CUDA || runtime === undefined) return undefined;
  const found = namesIn(enginesFolder()).flatMap((name) => /^cuda-([\d.]+)$/.exec(name)?.[1] ?? []);
  if (found.length === 0) return undefined;
  const pinned = ENGINE_PACKAGES.cuda.version;
  const remedy =
    runtime === pinned
      ? `install those for it with "${INSTALL_CUDA}"`
      : `this version of onnx-tapir needs onnxruntime-node ${pinned}`;
  return `the installed CUDA libraries are for onnxruntime ${found.join(', ')}, and onnxruntime-node is ${runtime}; ${remedy}`;
}

/**
 * Lets onnxruntime find the installed provider, if there is one. Call it in each thread or process before onnxruntime-node is
 * loaded.
 *
 * @returns Why it will not find it; undefined if nothing is in the way.
 */
export function offerInstalledProvider(): string | undefined {
  const path = linkedRuntime();
  if (path === undefined) return undefined;
  return linkInstalledProvider() ?? loadLibrary(path);
}

/** The path by which onnxruntime's library is to be loaded; undefined if nothing is installed. */
function linkedRuntime(): string | undefined {
  const libraries = installedCuda();
  const runtime = findRuntime();
  if (libraries === undefined || runtime === undefined) return undefined;
  return join(runtimeFolder(libraries, runtime), RUNTIME);
}

/** Onnxruntime's library in onnxruntime-node. */
function findRuntime(): string | undefined {
  const path = join(bindingFolder() ?? '', RUNTIME);
  return existsSync(path) ? join(realpathSync(dirname(path)), RUNTIME) : undefined;
}

/**
 * Makes the links that {@link offerInstalledProvider} needs, for those who can only read the cache folder later.
 *
 * @returns Why they cannot be made; undefined if they are there, or if nothing is installed.
 */
export function linkInstalledProvider(): string | undefined {
  const libraries = installedCuda();
  const runtime = findRuntime();
  try {
    if (libraries !== undefined && runtime !== undefined) linkRuntime(libraries, runtime);
    return undefined;
  } catch (error) {
    return `its libraries cannot be linked: ${reasonOf(error)}`;
  }
}

/**
 * Makes the folder with onnxruntime's library and the provider side by side: a link to each. There is one for each
 * onnxruntime-node, because the engine's folder is shared by all projects.
 *
 * @throws Error if the folder cannot be written.
 */
function linkRuntime(libraries: string, runtime: string): void {
  const folder = runtimeFolder(libraries, runtime);
  // The folder of the engine is there: it holds the record of the installation.
  for (const one of [dirname(folder), folder]) unlessThere(() => mkdirSync(one));
  link(runtime, join(folder, RUNTIME));
  // Relative, so that the engine's folder can be moved, as into an image of a container.
  for (const name of PROVIDERS) link(join('..', '..', ENGINE_LIBRARIES, name), join(folder, name));
}

function runtimeFolder(libraries: string, runtime: string): string {
  const id = createHash('sha256').update(runtime).digest('hex').slice(0, 16);
  return join(dirname(libraries), 'runtimes', id);
}

// The folder's name follows from the target, so a link that is there is the right one.
function link(target: string, path: string): void {
  unlessThere(() => symlinkSync(target, path));
}

function unlessThere(make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Why onnxruntime, which is loaded, does not look for its provider among the installed libraries; undefined if it does, or if none
 * are installed.
 */
export function whyNotOffered(): string | undefined {
  const expected = linkedRuntime();
  if (expected === undefined) return undefined;
  const loaded = listLoaded().filter((path) => path.endsWith(`/${RUNTIME}`));
  if (loaded.length === 0 || loaded.includes(expected)) return undefined;
  return (
    'onnxruntime-node was loaded in this process before onnx-tapir opened its first session, ' +
    `so it looks for its CUDA provider beside ${loaded[0]!} and not in ${installedCuda()!}; ` +
    "open the session in its own process (isolation: 'process', --set isolation=process), or load onnxruntime-node later"
  );
}

/** Paths of the loaded libraries, as the loader was given them. */
function listLoaded(): readonly string[] {
  // Its types do not know the property, which Node has had since 20.13.
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report;
  const before = report.excludeNetwork ?? false;
  // It would ask for the names of all connected machines.
  report.excludeNetwork = true;
  const { sharedObjects } = report.getReport() as { readonly sharedObjects?: readonly string[] };
  report.excludeNetwork = before;
  return sharedObjects ?? [];
}
