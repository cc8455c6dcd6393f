/** Checks around a CUDA session: before it opens, whether it can; after a failure, why it could not. */
import { reasonOf, type TapirError } from '../../base/errors.js';
import { checkLibraryFolder, preloadLibraries } from './cuda-libraries.js';
import type { ResolvedDevice } from '../device.js';
import { explainCuda, outOfRange, unavailable } from './device-failure.js';
import { describeGpus } from './device-list.js';
import { hasDriver } from './driver-files.js';
import { listGpus } from './nvidia-smi.js';
import { findMissing, findProvider, providerPath, whyNoProvider } from './provider-library.js';

/**
 * Checks that a CUDA session can be opened, before onnxruntime loads anything, and loads the libraries of a folder for it.
 *
 * @param device - Of type `cuda`.
 * @param cudaLibraries - Folder with CUDA and cuDNN. Without it, the system's loader looks for them.
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE`; `OPTION_INVALID` if the folder is missing or has no library that is needed.
 */
export async function prepareCuda(device: ResolvedDevice, cudaLibraries: string | undefined): Promise<void> {
  if (cudaLibraries !== undefined) checkLibraryFolder(cudaLibraries);
  const provider = findProvider();
  // The first GPU needs no count, which may take a second.
  const visible = device.uuid === undefined && device.id > 0 ? await countVisible() : undefined;
  const reasons = [
    visible !== undefined && device.id >= visible ? outOfRange(device, visible) : undefined,
    whyNoProvider(provider),
    visible === undefined && !hasDriver() ? NO_DRIVER : undefined,
  ].filter((reason) => reason !== undefined);
  if (reasons.length > 0) throw unavailable(device, reasons.join('; '));
  if (cudaLibraries !== undefined && provider) preloadLibraries(cudaLibraries, providerPath(provider));
}

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
  const missing =
    provider && /failed to load shared library/i.test(text) ? findMissing(providerPath(provider)) : [];
  const reason = explainCuda(device, text, {
    visible: report.source === 'nvidia-smi' ? describeGpus(report).length : undefined,
    driverVersion: report.gpus[0]?.driverVersion ?? undefined,
    missing,
  });
  return unavailable(device, reason, { cause: error, missing });
}
