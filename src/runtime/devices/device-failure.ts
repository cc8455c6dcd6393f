/** Why a device cannot be used: onnxruntime's texts, explained, each with the next step. */
import { reasonOf, TapirError } from '../../base/errors.js';
import { deviceName, type ResolvedDevice } from '../device.js';
import type { MissingLibrary } from './provider-library.js';

/** What else is known when CUDA fails; looked up only then. */
export interface CudaSurroundings {
  /** How many GPUs are visible; undefined where that cannot be told. */
  readonly visible: number | undefined;
  readonly driverVersion: string | undefined;
  /** Libraries that the provider needs and that do not load. */
  readonly missing: readonly MissingLibrary[];
}

/** `DEVICE_UNAVAILABLE`: the reason, and what to do. */
export function unavailable(
  device: ResolvedDevice,
  reason: string,
  { cause, missing = [] }: { readonly cause?: unknown; readonly missing?: readonly MissingLibrary[] } = {},
): TapirError<'DEVICE_UNAVAILABLE'> {
  const name = deviceName(device);
  const names = missing.map((library) => library.name);
  return new TapirError(
    'DEVICE_UNAVAILABLE',
    `${name} cannot be used: ${reason}; "tapir doctor" tells more, or choose device "cpu"`,
    {
      details: { device: name, reason, ...(names.length > 0 ? { missingLibraries: names } : {}) },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

const DEVICE_TEXT =
  /AppendExecutionProvider|CUDA failure|CUDA error|WebGPU|no available backend|backend not found/i;

/** Whether onnxruntime's error is about the device, not about the model. */
export function isDeviceFailure(device: ResolvedDevice, error: unknown): boolean {
  return device.type !== 'cpu' && DEVICE_TEXT.test(reasonOf(error));
}

/** `SESSION_FAILED`. */
export function refused(device: ResolvedDevice, error: unknown): TapirError<'SESSION_FAILED'> {
  const reason = reasonOf(error);
  const name = deviceName(device);
  // Of a value whose type the file does not state.
  const isStrange = /^Unsupported data type: \d+$/.test(reason);
  const remedy = isStrange ? ' (16 is bfloat16); put a Cast to float32 there' : '';
  return new TapirError('SESSION_FAILED', `ONNX Runtime refuses the model on ${name}: ${reason}${remedy}`, {
    details: { device: name, reason },
    cause: error,
  });
}

/** An index that no visible GPU has. */
export function outOfRange({ id }: ResolvedDevice, visible: number | undefined): string {
  const count =
    visible === undefined
      ? 'there are fewer GPUs'
      : visible === 0
        ? 'no GPU is visible'
        : visible === 1
          ? 'one GPU is visible, cuda:0'
          : `${visible} GPUs are visible, cuda:0 to cuda:${visible - 1}`;
  return `there is no GPU ${id}: ${count} (CUDA_VISIBLE_DEVICES selects and renumbers them)`;
}

/** Libraries that do not load, by name. */
export function lacking(missing: readonly MissingLibrary[]): string {
  const names = missing.map(({ name }) => name);
  const first = missing[0]?.reason ?? '';
  const isDriver = names.some((name) => name.startsWith('libcuda.so'));
  const driver = isDriver ? '; libcuda.so comes with the NVIDIA driver' : '';
  return `the CUDA provider needs ${names.join(', ')}, not found or not loading (${first})${driver}; install CUDA and cuDNN of these versions where the loader looks (LD_LIBRARY_PATH, set before Node starts), or name their folder: cudaLibraries, --cuda-libs`;
}

/** What onnxruntime says when it cannot start CUDA, in the user's terms. */
export function explainCuda(
  device: ResolvedDevice,
  text: string,
  { visible, driverVersion, missing }: CudaSurroundings,
): string {
  const failure = /CUDA (?:failure|error)\s+(\d+)/i.exec(text)?.[1];
  if (/failed to load shared library/i.test(text))
    return missing.length > 0 ? lacking(missing) : `${text} (all libraries it needs load by themselves)`;
  if (failure === '101' || /invalid device ordinal/i.test(text)) return outOfRange(device, visible);
  if (failure === '35' || /driver version is insufficient/i.test(text)) {
    const version = driverVersion === undefined ? '' : ` (${driverVersion})`;
    return `the NVIDIA driver${version} is too old for the CUDA libraries that the provider needs; install a newer driver`;
  }
  if (failure === '100' || /no CUDA-capable device/i.test(text))
    return 'CUDA sees no GPU: none is there, it was not given to this container, or CUDA_VISIBLE_DEVICES hides it';
  if (failure === '2' || /out of memory/i.test(text))
    return `the GPU has too little free memory (${text}); end other users of it (nvidia-smi lists them), or take a smaller batch`;
  if (failure === '803' || /unsupported display driver/i.test(text))
    return 'the loaded NVIDIA driver and its libraries are of different versions; restart the machine, or the container with the driver of its host';
  return text;
}

/** What onnxruntime says when it cannot start WebGPU, in the user's terms. */
export function explainWebGpu(text: string): string {
  const refusal = /Failed to get a WebGPU adapter:\s*(.*)$/.exec(text)?.[1];
  if (refusal === undefined) return text;
  const needs =
    process.platform === 'linux' ? 'a GPU driver with Vulkan, and libvulkan.so.1' : 'a GPU driver';
  return `there is no WebGPU adapter (${refusal}); it needs ${needs}`;
}
