/** Checks around a CUDA session: before it opens, whether it can; after a failure, why it could not. */
import { reasonOf, type TapirError } from '../../base/errors.js';
import { checkHolds, checkLibraryFolder, preloadLibraries } from './cuda-libraries.js';
import type { ResolvedDevice } from '../lanes/device.js';
import { explainCuda, lacking, outOfRange, unavailable } from './device-failure.js';
import { describeGpus } from './device-list.js';
import { hasDriver } from './driver-files.js';
import { installedCuda, offerInstalledProvider, whyNotOffered } from './installed-cuda.js';
import { describeMissing } from './missing-libraries.js';
import { listGpus } from './nvidia-smi.js';
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
  const visible = device.uuid === undefined && device.id > 0 ? await countVisible() : undefined;
  const missing = path === undefined ? [] : findAbsent(path, folder);
  const damage = whyNoProvider(provider);
  const reasons = [
    visible !== undefined && device.id >= visible ? outOfRange(device, visible) : undefined,
    damage ?? offerInstalledProvider() ?? (missing.length > 0 ? lacking(missing) : undefined),
    visible === undefined && !hasDriver() ? NO_DRIVER : undefined,
  ].filter((reason) => reason !== undefined);
  if (reasons.length > 0) throw unavailable(device, reasons.join('; '), { missing });
  if (folder !== undefined && path !== undefined) preloadLibraries(folder, path);
}

/** The libraries that the provider needs and that are neither in the folder nor found by the system's loader, except for the driver’s. */
function findAbsent(provider: string, folder: string | undefined): MissingLibrary[] {
  const files = folder === undefined ? new Map<string, string>() : checkHolds(folder, provider);
  const missing = findMissing(provider, (name) => files.has(name) || isOfDriver(name));
  return describeMissing(missing, files);
}

const isOfDriver = (name: string): boolean => name.startsWith('libcuda.so');

const NO_DRIVER =
  'no NVIDIA driver is visible here (no /dev/nvidia0); install it, or give the GPUs to this container (docker run --gpus all)';

/** Number of GPUs that CUDA sees; undefined if nvidia-smi does not list them. */
async function countVisible(): Promise<number | undefined> {
  const report = await listGpus();
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
    visible: report.source === 'nvidia-smi' ? describeGpus(report).length : undefined,
    driverVersion: report.gpus[0]?.driverVersion ?? undefined,
    missing: describeMissing(missing),
  });
  return unavailable(device, reason, { cause: error, missing });
}
