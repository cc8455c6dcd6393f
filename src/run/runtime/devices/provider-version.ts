/** Reads from the CUDA provider's file which onnxruntime it belongs to. */
import { open } from 'node:fs/promises';
import { CAN_INSTALL_CUDA, INSTALL_CUDA } from './installed-cuda.js';

const CHUNK_BYTES = 4 << 20;
/** A version between zero bytes, as compilers store a text. The provider has one such text. */
const VERSION = /\0(\d{1,4}\.\d{1,4}\.\d{1,4})\0/;
const MAX_VERSION_BYTES = 16;

/**
 * Finds the version of onnxruntime that a provider was built with.
 *
 * @remarks Reads up to the whole file (272 MB), 57 MB for the provider of 1.30.
 * @param path - `libonnxruntime_providers_cuda.so`.
 * @returns undefined if the file cannot be read or does not say its version.
 */
export async function readProviderVersion(path: string): Promise<string | undefined> {
  const file = await open(path).catch(() => undefined);
  if (!file) return undefined;
  try {
    const bytes = Buffer.alloc(CHUNK_BYTES);
    for (let at = 0; ; at += CHUNK_BYTES - MAX_VERSION_BYTES) {
      const { bytesRead } = await file.read(bytes, 0, CHUNK_BYTES, at);
      const version = VERSION.exec(bytes.toString('latin1', 0, bytesRead))?.[1];
      if (version !== undefined || bytesRead < CHUNK_BYTES) return version;
    }
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}

/**
 * Says that a provider belongs to another onnxruntime than the installed one, with which it would crash or compute nonsense.
 *
 * @param path - `libonnxruntime_providers_cuda.so`.
 * @param runtime - Version of onnxruntime-node.
 * @returns undefined if the versions are equal, or if the file does not say its version.
 */
export async function whyOtherProvider(path: string, runtime: string): Promise<string | undefined> {
  const version = await readProviderVersion(path);
  if (version === undefined || version === runtime) return undefined;
  const remedy = CAN_INSTALL_CUDA ? `get the right one with "${INSTALL_CUDA}"` : 'replace it';
  return `${path} belongs to onnxruntime ${version}, and onnxruntime-node is ${runtime}; ${remedy}`;
}
