/** Finds out from its files whether onnxruntime's CUDA provider can be loaded: onnxruntime's message is the same for every cause. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bindingFolder } from '../runtime-package.js';
import { readNeeded } from './elf.js';
import { CAN_INSTALL_CUDA, INSTALL_CUDA, installedCuda, whyNotInstalledCuda } from './installed-cuda.js';
import { loadLibrary, missingName } from './shared-library.js';

/** Shell command that downloads the provider for the installed onnxruntime-node from outside the npm registry. */
export const INSTALL_COMMAND =
  'ONNXRUNTIME_NODE_INSTALL=true node node_modules/onnxruntime-node/script/install.js';

const LIBRARIES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['libonnxruntime_providers_shared.so', 'libonnxruntime_providers_cuda.so'],
  win32: ['onnxruntime_providers_shared.dll', 'onnxruntime_providers_cuda.dll'],
};

/** A file of the provider. */
export interface ProviderFile {
  readonly name: string;
  /** Size of the file; null if it is missing. */
  readonly bytes: number | null;
}

/** The files of the CUDA provider: those that {@link INSTALL_CUDA} installed, else those beside onnxruntime-node. */
export interface ProviderFiles {
  readonly folder: string;
  /** Empty if there is no CUDA provider for this system. */
  readonly files: readonly ProviderFile[];
  /** Whether {@link INSTALL_CUDA} installed them. */
  readonly isInstalled: boolean;
}

/** Looks for the provider's files; undefined if onnxruntime-node is not installed. */
export function findProvider(): ProviderFiles | undefined {
  const binding = bindingFolder();
  if (binding === undefined) return undefined;
  const installed = installedCuda();
  const folder = installed ?? binding;
  const names = process.arch === 'x64' ? (LIBRARIES[process.platform] ?? []) : [];
  const files = names.map((name) => {
    const bytes = statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? null;
    return { name, bytes };
  });
  return { folder, files, isInstalled: installed !== undefined };
}

/** Whether all files of the provider are there. */
export function isComplete({ files }: ProviderFiles): boolean {
  return files.length > 0 && files.every(({ bytes }) => bytes !== null);
}

/** What is wrong with the provider's files, and how to get them; undefined if nothing is. */
export function whyNoProvider(provider: ProviderFiles | undefined = findProvider()): string | undefined {
  if (!provider) return 'onnxruntime-node is not installed';
  const { files, isInstalled } = provider;
  if (files.length === 0)
    return `onnxruntime-node has no CUDA provider for ${process.platform} ${process.arch}`;
  const damage = whyNotInstalledCuda();
  if (isInstalled) return damage;
  const missing = files.filter(({ bytes }) => bytes === null).map(({ name }) => name);
  if (missing.length === 0) return undefined;
  if (damage !== undefined) return damage;
  const command = CAN_INSTALL_CUDA ? `"${INSTALL_CUDA}" or "${INSTALL_COMMAND}"` : `"${INSTALL_COMMAND}"`;
  return `${missing.join(' and ')} missing beside onnxruntime-node (its install script was skipped or blocked); download with ${command}`;
}

/** The library that onnxruntime loads for CUDA. */
export function providerPath({ folder, files }: ProviderFiles): string {
  return join(folder, files.at(-1)?.name ?? '');
}

/** A library that the provider needs, and why it cannot be loaded. */
export interface MissingLibrary {
  readonly name: string;
  readonly reason: string;
  /** Paths of the same library in other versions. */
  readonly found?: readonly string[];
}

/**
 * Finds the libraries that a library needs and that cannot be loaded.
 *
 * @remarks Loads those that can be, so call it only if the user asked for the device.
 * @param path - The library. Libraries in the same folder count as found.
 * @param isFound - Names that are not tried, because they will be found.
 */
export function findMissing(
  path: string,
  isFound: (name: string) => boolean = () => false,
): MissingLibrary[] {
  const needed = readNeeded(path);
  const missing = new Map<string, MissingLibrary>();
  for (const wanted of needed) {
    if (isFound(wanted) || existsSync(join(dirname(path), wanted))) continue;
    const reason = loadLibrary(wanted);
    if (reason === undefined) continue;
    const name = missingName(reason) ?? wanted;
    missing.set(name, { name, reason });
  }
  return [...missing.values()];
}
