/** Explains onnxruntime's messages about devices that cannot be used, each with the next step. */
import { reasonOf, TapirError } from '../../../base/errors.js';
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import { CAN_INSTALL_CUDA, INSTALL_CUDA } from './installed-cuda.js';
import type { MissingLibrary } from './provider-library.js';

/** Facts that help to explain a failure of CUDA. */
export interface CudaSurroundings {
  /** Number of visible GPUs; undefined if unknown. */
  readonly visible: number | undefined;
  readonly driverVersion: string | undefined;
  /** Libraries that the provider needs and that cannot be loaded. */
  readonly missing: readonly MissingLibrary[];
}

/** `DEVICE_UNAVAILABLE`, with the reasons, the likeliest first, and what to do. */
export function unavailable(
  device: ResolvedDevice,
  reasons: string | readonly string[],
  { cause, missing = [] }: { readonly cause?: unknown; readonly missing?: readonly MissingLibrary[] } = {},
): TapirError<'DEVICE_UNAVAILABLE'> {
  const name = deviceName(device);
  const reason = [reasons].flat().join('. Besides, ');
  const names = missing.map((library) => library.name);
  return new TapirError(
    'DEVICE_UNAVAILABLE',
    `${name} cannot be used: ${reason}. Run "tapir doctor" for details, or choose device "cpu"`,
    {
      details: { device: name, reason, ...(names.length > 0 ? { missingLibraries: names } : {}) },
      cause,
    },
  );
}

/** `DEVICE_UNAVAILABLE` for `devices: 'all'`. */
export function noDevices(reason: string): TapirError<'DEVICE_UNAVAILABLE'> {
  return new TapirError(
    'DEVICE_UNAVAILABLE',
    `devices "all" finds no GPU to run on: ${reason}. Run "tapir doctor" for details, or leave "devices" out to run on the CPU`,
    { details: { device: 'all', reason } },
  );
}

export const NO_DRIVER =
  'no NVIDIA driver is visible here (no /dev/nvidia0); install it, or give the GPUs to this container (docker run --gpus all)';

/** What WebGPU's provider says of a shader that the adapter cannot compile. */
const HALF_TEXT = /requires f16 but the device does not support it/;

const FULL_TEXT = /failed to allocate memory|out of memory/i;
const DEVICE_TEXT = new RegExp(
  `AppendExecutionProvider|CUDA failure|CUDA error|WebGPU|no available backend|backend not found|${FULL_TEXT.source}`,
  'i',
);

/** Whether an error of onnxruntime concerns the device and not the model. */
export function isDeviceFailure(device: ResolvedDevice, error: unknown): boolean {
  return device.type !== 'cpu' && DEVICE_TEXT.test(reasonOf(error));
}

/** `SESSION_FAILED`. */
export function refused(device: ResolvedDevice, error: unknown): TapirError<'SESSION_FAILED'> {
  const reason = reasonOf(error);
  const name = deviceName(device);
  // The type of a value that the file does not declare.
  const isStrange = /^Unsupported data type: \d+$/.test(reason);
  const remedy = isStrange ? ' (16 is bfloat16); put a Cast to float32 there' : halfRemedy(reason);
  return new TapirError('SESSION_FAILED', `ONNX Runtime refuses the model on ${name}: ${reason}${remedy}`, {
    details: { device: name, reason },
    cause: error,
  });
}

/** `RUN_FAILED`. */
export function runFailed(device: ResolvedDevice, error: unknown): TapirError<'RUN_FAILED'> {
  const reason = reasonOf(error);
  const name = deviceName(device);
  const others = device.type === 'cpu' ? '' : ', or end other programs on this GPU (nvidia-smi lists them)';
  const isFull = FULL_TEXT.test(reason);
  const remedy = isFull ? `its memory is full; use smaller batches${others}: ` : '';
  return new TapirError(
    'RUN_FAILED',
    `the model failed on ${name}: ${remedy}${reason}${halfRemedy(reason)}`,
    {
      details: { device: name, reason },
      cause: error,
    },
  );
}

function halfRemedy(reason: string): string {
  return HALF_TEXT.test(reason) ? '; this GPU has no float16 (shader-f16): use a model in float32' : '';
}

/** The reason for an index that no visible GPU has. */
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

/** The reason for libraries that cannot be loaded. */
export function lacking(missing: readonly MissingLibrary[]): string {
  const isOfDriver = ({ name }: MissingLibrary): boolean => name.startsWith('libcuda.so');
  const cuda = missing.filter((library) => !isOfDriver(library));
  const reasons = cuda.length > 0 ? [lackingCuda(cuda)] : [];
  if (cuda.length < missing.length)
    reasons.push(
      'libcuda.so.1, which comes with the NVIDIA driver, is not here; install the driver, or let the container have it (docker run --gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility)',
    );
  return reasons.join('; ');
}

function lackingCuda(missing: readonly MissingLibrary[]): string {
  const names = missing.map(({ name, found }) =>
    found === undefined || found.length === 0 ? name : `${name} (found: ${found.join(', ')})`,
  );
  const install = CAN_INSTALL_CUDA ? `"${INSTALL_CUDA}" brings them; or ` : '';
  return `the CUDA provider needs ${names.join(', ')}, which cannot be found or loaded (${missing[0]!.reason}); ${install}install these versions of CUDA and cuDNN and add their folder to LD_LIBRARY_PATH before Node starts, or pass the folder as option "cudaLibraries"`;
}

/** Explains why onnxruntime cannot start CUDA. */
export function explainCuda(
  device: ResolvedDevice,
  text: string,
  { visible, driverVersion, missing }: CudaSurroundings,
): string {
  const failure = /CUDA (?:failure|error)\s+(\d+)/i.exec(text)?.[1];
  if (/failed to load shared library/i.test(text))
    return missing.length > 0 ? lacking(missing) : `${text} (all libraries that it needs can be loaded)`;
  if (failure === '101' || /invalid device ordinal/i.test(text)) return outOfRange(device, visible);
  if (failure === '35' || /driver version is insufficient/i.test(text)) {
    const version = driverVersion === undefined ? '' : ` (${driverVersion})`;
    return `the NVIDIA driver${version} is too old for the CUDA libraries that the provider needs; install a newer driver`;
  }
  if (failure === '100' || /no CUDA-capable device/i.test(text))
    return 'CUDA sees no GPU: the machine has no GPU, this container has no access to it, or CUDA_VISIBLE_DEVICES hides it';
  if (failure === '2' || FULL_TEXT.test(text))
    return `the GPU has too little free memory (${text}); end other programs on it (nvidia-smi lists them), or use a smaller batch`;
  if (failure === '803' || /unsupported display driver/i.test(text))
    return 'the loaded NVIDIA driver and its libraries have different versions; restart the machine, or use the driver of the host in the container';
  return text;
}

/** Explains why onnxruntime cannot start WebGPU. */
export function explainWebGpu(text: string): string {
  const refusal = /Failed to get a WebGPU adapter:\s*(.*)$/.exec(text)?.[1];
  if (refusal === undefined) return text;
  const needs =
    process.platform === 'linux' ? 'a GPU driver with Vulkan, and libvulkan.so.1' : 'a GPU driver';
  return `there is no WebGPU adapter (${refusal}); it needs ${needs}`;
}
