/** Checks around a CUDA session: before it opens, whether it can; after a failure, why it could not. */
import { delimiter, join } from 'node:path';
import { namesIn } from '../../../base/folder-names.js';
import { reasonOf, type TapirError } from '../../../base/errors.js';
import { checkHolds, checkLibraryFolder, otherVersions, preloadLibraries } from './cuda-libraries.js';
import type { ResolvedDevice } from '../lanes/device.js';
import { explainCuda, lacking, NO_DRIVER, outOfRange, unavailable } from './device-failure.js';
import { describeGpus } from './device-list.js';
import { hasDriver } from './driver-files.js';
import { installedCuda, offerInstalledProvider, whyNotOffered } from './installed-cuda.js';
import { listGpus, type GpuReport } from './nvidia-smi.js';
import {
  findMissing,
  findProvider,
  isComplete,
  providerPath,
  whyNoProvider,
  type MissingLibrary,
} from './provider-library.js';

/**
 * Checks that a CUDA session can be opened, before onnxruntime loads anything, and loads the libraries that it needs: those of a
 * folder, else the installed ones.
 *
 * @param device - Of type `cuda`.
 * @param cudaLibraries - Folder with CUDA and cuDNN. Without it, they are the installed ones, else the system's loader looks for
 * them.
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE`; `OPTION_INVALID` if the folder is missing or has no library that is needed.
 */
export async function prepareCuda(device: ResolvedDevice, cudaLibraries: string | undefined): Promise<void> {
  if (cudaLibraries !== undefined) checkLibraryFolder(cudaLibraries);
  const provider = findProvider();
  const path = provider && isComplete(provider) ? providerPath(provider) : undefined;
  const folder = cudaLibraries ?? installedCuda();
  // The first GPU needs no count, which may take a second.
  const visible = device.uuid === undefined && device.id > 0 ? countVisible(await listGpus()) : undefined;
  const missing = path === undefined ? [] : findAbsent(path, folder);
  const damage = whyNoProvider(provider);
  const reasons = [
    visible !== undefined && device.id >= visible ? outOfRange(device, visible) : undefined,
    visible === undefined && !hasDriver() ? NO_DRIVER : undefined,
    damage ?? offerInstalledProvider() ?? (missing.length > 0 ? lacking(missing) : undefined),
  ].filter((reason) => reason !== undefined);
  if (reasons.length > 0) throw unavailable(device, reasons, { missing });
  if (folder !== undefined && path !== undefined) preloadLibraries(folder, path);
}

/** The libraries that the provider needs and that are neither in the folder nor found by the system's loader, except for the driver’s. */
function findAbsent(provider: string, folder: string | undefined): MissingLibrary[] {
  const files = folder === undefined ? new Map<string, string>() : checkHolds(folder, provider);
  const missing = findMissing(provider, (name) => files.has(name) || isOfDriver(name));
  return describeMissing(missing, files);
}

const isOfDriver = (name: string): boolean => name.startsWith('libcuda.so');

/** Number of GPUs that CUDA sees; undefined if nvidia-smi does not list them. */
function countVisible(report: GpuReport): number | undefined {
  return report.source === 'nvidia-smi' ? describeGpus(report).length : undefined;
}

/** Explains why CUDA failed. */
export async function cudaFailure(
  device: ResolvedDevice,
  error: unknown,
): Promise<TapirError<'DEVICE_UNAVAILABLE'>> {
  const text = reasonOf(error);
  const provider = findProvider();
  const report = await listGpus();
  const isUnloaded = /failed to load shared library/i.test(text);
  const missing = provider && isUnloaded ? findMissing(providerPath(provider)) : [];
  const elsewhere = isUnloaded ? whyNotOffered() : undefined;
  if (elsewhere !== undefined) return unavailable(device, elsewhere, { cause: error });
  const reason = explainCuda(device, text, {
    visible: countVisible(report),
    driverVersion: report.gpus[0]?.driverVersion ?? undefined,
    missing: describeMissing(missing),
  });
  return unavailable(device, reason, { cause: error, missing });
}

/** Where CUDA and cuDNN usually are, besides the folders of LD_LIBRARY_PATH. */
const USUAL = ['/usr/local/cuda/lib64', '/usr/lib/x86_64-linux-gnu', '/usr/lib64', '/usr/local/lib'];

/**
 * Adds to each missing library the paths of its other versions.
 *
 * @param files - The libraries of a folder that was looked through: paths by file name.
 */
export function describeMissing(
  missing: readonly MissingLibrary[],
  files: ReadonlyMap<string, string> = new Map(),
): MissingLibrary[] {
  if (missing.length === 0) return [];
  const all = new Map([...listUsual(), ...files]);
  return missing.map((library) => ({ ...library, found: otherVersions(library.name, all) }));
}

function listUsual(): [name: string, path: string][] {
  const stated = (process.env['LD_LIBRARY_PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return [...USUAL, ...stated].flatMap((folder) =>
    namesIn(folder)
      .filter((name) => /\.so\.\d/.test(name))
      .map((name): [string, string] => [name, join(folder, name)]),
  );
}
