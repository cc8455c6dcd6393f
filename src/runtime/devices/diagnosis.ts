/** Everything that decides whether models run here, gathered for `tapir doctor`. */
import { availableParallelism } from 'node:os';
import { checkLibraryFolder } from './cuda-libraries.js';
import { readDevice, type Device } from '../device.js';
import { cudaDevices, describeCpu, describeGpus, type CpuDevice, type CudaDevice } from './device-list.js';
import { listDeviceFiles, type DeviceFile } from './driver-files.js';
import { readLibrary } from './elf.js';
import { listGpus, readDriverVersions, type DriverVersions, type GpuReport } from './nvidia-smi.js';
import { probeDevice, type ProbeOptions, type ProbeResult } from './probe.js';
import {
  findProvider,
  findRuntimePackage,
  INSTALL_COMMAND,
  providerPath,
  whyNoProvider,
  type ProviderFiles,
} from './provider-library.js';

/** A device and how its probe went. */
export interface ProbedDevice extends ProbeResult {
  readonly device: Device;
}

/** What surrounds onnxruntime here. */
export interface Diagnosis {
  readonly node: {
    readonly version: string;
    /** Version of the binary interface of modules. */
    readonly abi: string;
    readonly platform: string;
    readonly arch: string;
    /** Version of the C library; null if it is not glibc, which onnxruntime-node needs on Linux. */
    readonly glibc: string | null;
  };
  readonly runtime: {
    /** Version of the installed package; null if there is none. */
    readonly version: string | null;
    /** Providers compiled in; whether they work is told by `devices`. */
    readonly providers: readonly string[];
  };
  readonly cpu: CpuDevice;
  readonly cuda: {
    readonly provider: ProviderFiles | null;
    /** Why the provider cannot be used, as far as its files tell. */
    readonly problem: string | null;
    /** Libraries that the provider says it needs. */
    readonly needed: readonly string[];
    readonly installCommand: string;
    readonly driver: DriverVersions;
    readonly gpus: readonly CudaDevice[];
    /** GPUs of the machine that CUDA_VISIBLE_DEVICES hides. */
    readonly hidden: number;
    readonly source: GpuReport['source'];
    readonly problemOfList: string | null;
    readonly deviceFiles: readonly DeviceFile[];
  };
  /** Variables as they are set; null if they are not. */
  readonly environment: Readonly<Record<string, string | null>>;
  readonly isTelemetryOff: boolean;
  readonly notes: readonly string[];
  readonly devices: readonly ProbedDevice[];
}

const VARIABLES = [
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_ORDER',
  'LD_LIBRARY_PATH',
  'ORT_DISABLE_TELEMETRY',
  'ONNXRUNTIME_NODE_INSTALL',
];

/**
 * Gathers the facts and tries every device in a child process.
 *
 * @param options - Time limit of each probe, and a folder with CUDA libraries.
 * @throws {@link TapirError} `OPTION_INVALID` if that folder is missing.
 */
export async function diagnose(options: ProbeOptions): Promise<Diagnosis> {
  if (options.cudaLibraries !== undefined) checkLibraryFolder(options.cudaLibraries);
  const [report, driver] = await Promise.all([listGpus(), readDriverVersions()]);
  const gpus = describeGpus(report);
  const devices = await probeAll(gpus, options);
  const installed = findRuntimePackage();
  const provider = findProvider() ?? null;
  return {
    node: readNode(),
    runtime: {
      version: installed?.version ?? null,
      providers: devices.find(({ providers }) => providers.length > 0)?.providers ?? [],
    },
    cpu: describeCpu(),
    cuda: {
      provider,
      problem: whyNoProvider() ?? null,
      needed: (provider && readLibrary(providerPath(provider))?.needed) ?? [],
      installCommand: INSTALL_COMMAND,
      driver: { ...driver, driver: driver.driver ?? report.gpus[0]?.driverVersion ?? null },
      gpus,
      hidden: report.gpus.length - gpus.length,
      source: report.source,
      problemOfList: report.problem,
      deviceFiles: listDeviceFiles(),
    },
    environment: Object.fromEntries(VARIABLES.map((name) => [name, process.env[name] ?? null])),
    isTelemetryOff: isTelemetryOff(),
    notes: listNotes(),
    devices,
  };
}

/** One after the other: two processes that start WebGPU or CUDA at once tell less about each. */
async function probeAll(gpus: readonly CudaDevice[], options: ProbeOptions): Promise<ProbedDevice[]> {
  const found = cudaDevices(gpus.map((gpu) => ({ ...gpu, isUsable: true })));
  const devices: Device[] = ['cpu', ...(found.length > 0 ? found : ['cuda' as const]), 'webgpu'];
  const probed: ProbedDevice[] = [];
  for (const device of devices) {
    options.signal?.throwIfAborted();
    probed.push({ device, ...(await probeDevice(readDevice('device', device), options)) });
  }
  return probed;
}

function readNode(): Diagnosis['node'] {
  const { version, versions, platform, arch, report } = process;
  // Looking up the names of network addresses can take long; @types/node does not know the switch.
  Object.assign(report, { excludeNetwork: true });
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return { version, abi: versions.modules, platform, arch, glibc: header?.glibcVersionRuntime ?? null };
}

/** tapir sets the variable for its lanes, unless the user has. */
function isTelemetryOff(): boolean {
  return (process.env['ORT_DISABLE_TELEMETRY'] ?? '1') === '1';
}

/** What depends on the version of Node, or on settings, and surprises. */
function listNotes(): string[] {
  const notes: string[] = [];
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if ('Float16Array' in globalThis)
    notes.push(
      `Node ${major} has Float16Array, with which onnxruntime-node itself reads float16 inputs as empty; tapir works around it`,
    );
  // 24.9 and 22.21 brought it.
  const takesShared = major > 24 || (major === 24 && minor > 8) || (major === 22 && minor >= 21);
  if (!takesShared)
    notes.push(
      `onnxruntime-node takes no SharedArrayBuffer as input on Node ${major}.${minor}; tapir copies such inputs`,
    );
  const order = process.env['CUDA_DEVICE_ORDER'];
  if (order !== undefined && order !== 'PCI_BUS_ID')
    notes.push(
      `CUDA_DEVICE_ORDER=${order}: CUDA counts GPUs otherwise than nvidia-smi and this list; leave it unset`,
    );
  if (availableParallelism() === 1) notes.push('one core: decoding images and the model take turns');
  return notes;
}
