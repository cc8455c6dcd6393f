/** The devices of this machine, as far as they are known without opening a session. */
import { availableParallelism, cpus, totalmem } from 'node:os';
import type { Device } from '../device.js';
import type { MigSlice } from './gpu.js';
import { listGpus, type GpuReport } from './nvidia-smi.js';
import { findRuntimePackage, whyNoProvider } from './provider-library.js';
import { selectVisible, type VisibleGpu } from './visible-devices.js';

/** What is known of any device. */
interface AnyDevice {
  /** To be given as `device` or among `devices`. */
  readonly device: Device;
  /** As its maker calls it. */
  readonly name: string;
  /** Whether it can be used: `false` if something is in the way, `null` if only opening a session can tell. */
  readonly isUsable: boolean | null;
  /** What is in the way, and what to do; `null` if nothing is known to be. */
  readonly reason: string | null;
}

/** The CPU. */
export interface CpuDevice extends AnyDevice {
  readonly type: 'cpu';
  /** Cores that this process may use. */
  readonly cores: number;
  /** Memory that this process may use. */
  readonly memoryBytes: number;
}

/** A GPU for CUDA; `null` is a figure that the driver does not tell. */
export interface CudaDevice extends AnyDevice {
  readonly type: 'cuda';
  /** The number in `cuda:0`: by PCI bus id, among those that CUDA_VISIBLE_DEVICES leaves. */
  readonly index: number;
  readonly memoryBytes: number | null;
  readonly freeBytes: number | null;
  readonly uuid: string | null;
  readonly pciBusId: string | null;
  readonly driverVersion: string | null;
  /** Such as `8.0`. */
  readonly computeCapability: string | null;
  /** Its slices if it is divided (multi-instance GPU); each is a device of its own, named by its UUID. */
  readonly migSlices: readonly MigSlice[];
}

/** The GPU for WebGPU, whichever that is. */
export interface WebGpuDevice extends AnyDevice {
  readonly type: 'webgpu';
}

/** A device of {@link listDevices}; `type` tells them apart. */
export type DeviceInfo = CpuDevice | CudaDevice | WebGpuDevice;

/**
 * Lists the devices of this machine: the CPU, the CUDA GPUs that CUDA_VISIBLE_DEVICES leaves, and WebGPU.
 *
 * @remarks GPUs are those that nvidia-smi lists, or the driver's device files where it is not there; that it fails is no error. No
 * session is opened: `tapir doctor` does that.
 * @returns The CPU first, then GPUs in the order of their index, WebGPU last.
 *
 * @example
 * ```ts
 * import { listDevices } from 'onnx-tapir';
 *
 * for (const { device, name, isUsable, reason } of await listDevices()) console.log(device, name, isUsable, reason);
 * // cpu Intel(R) Xeon(R) Processor true null
 * // cuda:0 NVIDIA H100 80GB HBM3 true null
 * // webgpu WebGPU null only opening a session tells; run "tapir doctor"
 * ```
 */
export async function listDevices(): Promise<readonly DeviceInfo[]> {
  return [describeCpu(), ...describeGpus(await listGpus()), describeWebGpu()];
}

/** The CPU. */
export function describeCpu(): CpuDevice {
  const limit = process.constrainedMemory();
  const memoryBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return {
    type: 'cpu',
    device: 'cpu',
    name: cpus()[0]?.model.trim() ?? process.arch,
    cores: availableParallelism(),
    memoryBytes,
    ...ofRuntime(),
  };
}

/** The GPUs of a report that a process sees, as CUDA counts them. */
export function describeGpus(
  { gpus }: GpuReport,
  visible: string | undefined = process.env['CUDA_VISIBLE_DEVICES'],
): CudaDevice[] {
  return selectVisible(gpus, visible).map((one, index) => describeGpu(one, index));
}

function describeGpu({ gpu, slice }: VisibleGpu, index: number): CudaDevice {
  const { isDivided, ...facts } = gpu;
  const migSlices = slice ? [slice] : gpu.migSlices;
  const undivided = isDivided && migSlices.length === 0;
  const inTheWay = undivided
    ? 'it is to be divided into slices (MIG), and none is made; make one with "nvidia-smi mig -cgi … -C", or end that mode'
    : whyNoProvider();
  return {
    type: 'cuda',
    // CUDA gives a process no more than one slice, whatever its index: it is named.
    device: migSlices[0] ? { type: 'cuda', id: migSlices[0].uuid } : `cuda:${index}`,
    index,
    ...facts,
    migSlices,
    isUsable: inTheWay === undefined,
    reason: inTheWay ?? null,
  };
}

function describeWebGpu(): WebGpuDevice {
  const { isUsable, reason } = ofRuntime();
  return {
    type: 'webgpu',
    device: 'webgpu',
    name: 'WebGPU',
    isUsable: isUsable ? null : false,
    reason: reason ?? 'only opening a session tells; run "tapir doctor"',
  };
}

function ofRuntime(): Pick<AnyDevice, 'isUsable' | 'reason'> {
  if (findRuntimePackage()) return { isUsable: true, reason: null };
  return { isUsable: false, reason: 'onnxruntime-node is not installed; "npm install onnxruntime-node"' };
}

/**
 * All devices of the kind of one, for a model that is to run on all of them: every visible GPU, or slice of one, for CUDA; for other
 * kinds, and where GPUs cannot be listed, that one alone.
 *
 * @param own - The device in use, as messages name it.
 */
export async function devicesLike(own: string): Promise<readonly Device[]> {
  const all = own.startsWith('cuda:') ? cudaDevices(describeGpus(await listGpus())) : [];
  // What messages name is what a user may write.
  return all.length > 0 ? all : [own as Device];
}

/** GPUs as devices to run on: by index; by UUID if any is divided, since CUDA counts otherwise then. */
export function cudaDevices(listed: readonly CudaDevice[]): Device[] {
  const usable = listed.filter(({ isUsable }) => isUsable);
  if (usable.every(({ migSlices }) => migSlices.length === 0)) return usable.map(({ device }) => device);
  const ids = usable.flatMap(({ uuid, migSlices }) =>
    migSlices.length > 0 ? migSlices.map((slice) => slice.uuid) : uuid === null ? [] : [uuid],
  );
  return [...new Set(ids)].map((id) => ({ type: 'cuda', id }));
}
