/** Lists the devices of this machine, without opening a session. */
import { availableParallelism, cpus, totalmem } from 'node:os';
import type { Device } from '../lanes/device.js';
import { installedPlugins } from '../capabilities/plugins.js';
import { findRuntimePackage } from '../runtime-package.js';
import { NO_DRIVER, noDevices } from './device-failure.js';
import { hasDriver } from './driver-files.js';
import type { Gpu, MigSlice } from './gpu.js';
import { listGpus, type GpuReport } from './nvidia-smi.js';
import { devicesOfPlatform, titleOf, type PlatformKind } from './platform-devices.js';
import { whyNoProvider } from './provider-library.js';

/** Facts about any device. */
export interface AnyDevice {
  /** The value for the options `device` and `devices`. */
  readonly device: Device;
  /** The name that its vendor gave it. */
  readonly name: string;
  /** Whether it can be used: `false` if something prevents it, `null` if only opening a session can show it. */
  readonly isUsable: boolean | null;
  /** What prevents its use, and what to do; `null` if no problem is known. */
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

/** A GPU for CUDA. A field is `null` if the driver does not report it. */
export interface CudaDevice extends AnyDevice {
  readonly type: 'cuda';
  /** The number in `cuda:0`: its place among the visible GPUs, ordered by PCI bus id or as CUDA_VISIBLE_DEVICES lists them. */
  readonly index: number;
  readonly memoryBytes: number | null;
  readonly freeBytes: number | null;
  readonly uuid: string | null;
  readonly pciBusId: string | null;
  readonly driverVersion: string | null;
  /** For example `8.0`. */
  readonly computeCapability: string | null;
  /** Its slices, if it is divided (multi-instance GPU). Each slice is a separate device, named by its UUID. */
  readonly migSlices: readonly MigSlice[];
}

/** The GPU that WebGPU chooses. */
export interface WebGpuDevice extends AnyDevice {
  readonly type: 'webgpu';
}

/** The graphics card or the neural engine through what the operating system brings: CoreML on macOS, DirectML on Windows. */
export interface SystemDevice extends AnyDevice {
  readonly type: PlatformKind;
}

/** The first device of an installed plugin. */
export interface PluginDevice extends AnyDevice {
  readonly type: 'plugin';
}

/** A device of which only a session shows whether it works. */
type UntriedDevice = WebGpuDevice | SystemDevice | PluginDevice;

/** A device of {@link listDevices}: a union by `type`. */
export type DeviceInfo = CpuDevice | CudaDevice | UntriedDevice;

/**
 * Lists the devices of this machine: the CPU, the CUDA GPUs that CUDA_VISIBLE_DEVICES makes visible, WebGPU, CoreML on macOS
 * or DirectML on Windows, and installed plugins.
 *
 * @remarks The GPUs come from nvidia-smi, or from the driver's device files if nvidia-smi is missing or fails. No session is opened;
 * `tapir doctor` does that.
 * @returns The CPU first, then GPUs in the order of their index, then WebGPU, what the operating system brings, and the first device of each plugin.
 *
 * @example
 * ```ts
 * import { listDevices } from 'onnx-tapir';
 *
 * for (const { device, name, isUsable, reason } of await listDevices()) console.log(device, name, isUsable, reason);
 * // cpu Intel(R) Xeon(R) Processor true null
 * // cuda:0 NVIDIA H100 80GB HBM3 true null
 * // webgpu WebGPU null only opening a session shows it; run "tapir doctor"
 * ```
 */
export async function listDevices(): Promise<readonly DeviceInfo[]> {
  const ofSystem = devicesOfPlatform().map((type) => describeUntried(type, type, titleOf(type)));
  const ofPlugins = installedPlugins().map((name) =>
    describeUntried('plugin', `plugin:${name}`, `plugin ${name}`),
  );
  return [
    describeCpu(),
    ...describeGpus(await listGpus()),
    describeUntried('webgpu', 'webgpu', 'WebGPU'),
    ...ofSystem,
    ...ofPlugins,
  ];
}

/** Describes the CPU. */
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

/** Describes the visible GPUs of a report, numbered as CUDA numbers them. */
export function describeGpus(
  { gpus }: GpuReport,
  visible: string | undefined = process.env['CUDA_VISIBLE_DEVICES'],
): CudaDevice[] {
  return selectVisible(gpus, visible).map((one, index) => describeGpu(one, index));
}

/** A GPU that CUDA sees. */
interface VisibleGpu {
  readonly gpu: Gpu;
  /** The slice, if the variable names one. */
  readonly slice?: MigSlice;
}

/**
 * Selects the GPUs that CUDA sees, in its order.
 *
 * If the variable is not set, these are all GPUs. Otherwise it is a list of indices and of beginnings of UUIDs (`GPU-…`, `MIG-…`).
 * The list ends at the first entry that matches nothing, and a repeated entry makes it empty. Source: the CUDA programming guide,
 * "Environment variables", and torch.cuda.
 *
 * @param gpus - All GPUs, ordered by PCI bus id.
 * @param list - Value of the variable.
 */
export function selectVisible(gpus: readonly Gpu[], list: string | undefined): VisibleGpu[] {
  if (list === undefined) return gpus.map((gpu) => ({ gpu }));
  const chosen: VisibleGpu[] = [];
  for (const entry of list.split(',')) {
    const found = findEntry(gpus, entry.trim());
    if (!found) break;
    if (chosen.some(({ gpu, slice }) => gpu === found.gpu && slice === found.slice)) return [];
    chosen.push(found);
  }
  return chosen;
}

function findEntry(gpus: readonly Gpu[], entry: string): VisibleGpu | undefined {
  if (entry.startsWith('GPU-'))
    return only(gpus.filter(({ uuid }) => uuid?.startsWith(entry)).map((gpu) => ({ gpu })));
  if (entry.startsWith('MIG-')) {
    const all = gpus.flatMap((gpu) => gpu.migSlices.map((slice) => ({ gpu, slice })));
    return only(all.filter(({ slice }) => slice.uuid.startsWith(entry)));
  }
  // CUDA reads the digits at the beginning and ignores the rest.
  const index = /^\+?(\d{1,9})/.exec(entry)?.[1];
  const gpu = index === undefined ? undefined : gpus[Number(index)];
  return gpu && { gpu };
}

/** The match for the beginning of a UUID, if there is exactly one. */
function only(found: readonly VisibleGpu[]): VisibleGpu | undefined {
  return found.length === 1 ? found[0] : undefined;
}

function describeGpu({ gpu, slice }: VisibleGpu, index: number): CudaDevice {
  const { isDivided, ...facts } = gpu;
  const migSlices = slice ? [slice] : gpu.migSlices;
  const undivided = isDivided && migSlices.length === 0;
  const inTheWay = undivided
    ? 'it is in MIG mode and has no slices; create one with "nvidia-smi mig -cgi … -C", or switch the mode off'
    : whyNoProvider();
  return {
    type: 'cuda',
    // A process can use only one slice, whatever the index, so slices go by name.
    device: migSlices[0] ? { type: 'cuda', id: migSlices[0].uuid } : `cuda:${index}`,
    index,
    ...facts,
    migSlices,
    isUsable: inTheWay === undefined,
    reason: inTheWay ?? null,
  };
}

/** A device of which nothing is known before a session runs on it. */
function describeUntried<Type extends UntriedDevice['type']>(
  type: Type,
  device: Device,
  name: string,
): AnyDevice & { readonly type: Type } {
  const { isUsable, reason } = ofRuntime();
  return {
    type,
    device,
    name,
    isUsable: isUsable ? null : false,
    reason: reason ?? 'only opening a session shows it; run "tapir doctor"',
  };
}

function ofRuntime(): Pick<AnyDevice, 'isUsable' | 'reason'> {
  if (findRuntimePackage()) return { isUsable: true, reason: null };
  return { isUsable: false, reason: 'onnxruntime-node is not installed; "npm install onnxruntime-node"' };
}

/**
 * All devices of the same kind as a given one, for a model that will run on all of them. For CUDA these are all visible GPUs and
 * slices. For other kinds, and if GPUs cannot be listed, it is the given device alone.
 *
 * @param own - The device in use, as messages name it.
 */
export async function devicesLike(own: string): Promise<readonly Device[]> {
  const all = own.startsWith('cuda:') ? cudaDevices(describeGpus(await listGpus())) : [];
  // Messages use the names that users write.
  return all.length > 0 ? all : [own as Device];
}

/**
 * The devices that an option names: those of its list, or for `'all'` every CUDA GPU and slice that is visible.
 *
 * @throws {@link TapirError} `DEVICE_UNAVAILABLE` if `'all'` are none.
 */
export async function namedDevices<Given>(given: Given): Promise<Exclude<Given, 'all'> | readonly Device[]> {
  if (given !== 'all') return given as Exclude<Given, 'all'>;
  const report = await listGpus();
  const devices = cudaDevices(describeGpus(report));
  if (devices.length > 0) return devices;
  throw noDevices(whyNone(report));
}

/** Why no GPU of a report can be used. */
function whyNone(report: GpuReport): string {
  const [gpu] = describeGpus(report);
  if (gpu) return gpu.reason!;
  const count = report.gpus.length;
  if (count === 0) return hasDriver() ? (report.problem ?? 'CUDA sees no GPU') : NO_DRIVER;
  return `CUDA_VISIBLE_DEVICES="${process.env['CUDA_VISIBLE_DEVICES']}" hides the GPUs of this machine (${count})`;
}

/** GPUs as devices to run on: by index, or by UUID if one of them is divided, because CUDA numbers them differently then. */
export function cudaDevices(listed: readonly CudaDevice[]): Device[] {
  const usable = listed.filter(({ isUsable }) => isUsable);
  if (usable.every(({ migSlices }) => migSlices.length === 0)) return usable.map(({ device }) => device);
  const ids = usable.flatMap(({ uuid, migSlices }) =>
    migSlices.length > 0 ? migSlices.map((slice) => slice.uuid) : uuid === null ? [] : [uuid],
  );
  return [...new Set(ids)].map((id) => ({ type: 'cuda', id }));
}
