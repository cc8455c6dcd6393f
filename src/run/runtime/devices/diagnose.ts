/** Everything that decides whether models run on this machine: the facts behind `tapir doctor`. */
import { availableParallelism } from 'node:os';
import type { Options } from '../../../base/checks.js';
import { integer, readOptions, signal, type Fields } from '../../../base/options.js';
import { readGlibcVersion } from '../../../base/glibc-version.js';
import { readDevice, type Device } from '../lanes/device.js';
import { LANE_FIELDS } from '../lanes/lane-options.js';
import { installedPlugins } from '../capabilities/plugins.js';
import { listInstructionSets } from '../cpu-features.js';
import { findRuntimePackage } from '../runtime-package.js';
import { checkLibraryFolder, whyIncomplete } from './cuda-libraries.js';
import { cudaDevices, describeCpu, describeGpus, type CpuDevice, type CudaDevice } from './device-list.js';
import { listDeviceFiles, type DeviceFile } from './driver-files.js';
import { readNeeded } from './elf.js';
import { CAN_INSTALL_CUDA, INSTALL_CUDA, installedCuda } from './installed-cuda.js';
import { listGpus, readDriverVersions, type DriverVersions } from './nvidia-smi.js';
import { devicesOfPlatform } from './platform-devices.js';
import { probeDevice, type ProbeResult } from './probe.js';
import { probeEngines, type ProbedEngine } from './probe-engines.js';
import {
  findProvider,
  INSTALL_COMMAND,
  isComplete,
  providerPath,
  whyNoProvider,
  type ProviderFiles,
} from './provider-library.js';
import { whyOtherProvider } from './provider-version.js';

/** Options of {@link diagnose}. */
export interface DiagnoseOptions {
  /**
   * Longest time for each device in milliseconds, from 0 to 3,600,000. A device that takes longer counts as not working.
   * @default 60000
   */
  readonly timeoutMs: number;
  /**
   * Folder with the CUDA and cuDNN libraries, as the option of the same name of `createFeatureExtractor`.
   * @default undefined
   */
  readonly cudaLibraries: string | undefined;
  /**
   * Stops the diagnosis: the promise is rejected with the signal's reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const DIAGNOSE_FIELDS: Fields<DiagnoseOptions> = {
  timeoutMs: integer(0, 3_600_000, 60_000),
  cudaLibraries: LANE_FIELDS.cudaLibraries,
  signal,
};

/** A device and the result of trying it. */
export interface ProbedDevice extends ProbeResult {
  readonly device: Device;
}

/** What {@link diagnose} finds. */
export interface Diagnosis {
  readonly node: {
    readonly version: string;
    /** Version of the binary interface of native modules. */
    readonly abi: string;
    readonly platform: string;
    readonly arch: string;
    /** Version of the C library; null if it is not glibc, which onnxruntime-node needs on Linux. */
    readonly glibc: string | null;
  };
  readonly runtime: {
    /** Version of the installed onnxruntime-node; null if it is not installed. */
    readonly version: string | null;
    /** Providers that onnxruntime was compiled with. `devices` shows which of them work. */
    readonly providers: readonly string[];
  };
  readonly cpu: CpuDevice;
  /** Instruction sets of the CPU that decide how fast models run on it, in Linux's spelling; empty where the system does not list them. */
  readonly instructionSets: readonly string[];
  /** The engines, and the result of trying them on the CPU. */
  readonly engines: readonly ProbedEngine[];
  readonly cuda: {
    /** Files of the CUDA provider: the installed ones, else those beside onnxruntime-node; null without onnxruntime-node. */
    readonly provider: ProviderFiles | null;
    /** Why the provider cannot be loaded, as far as its files show it; null if nothing is wrong with them. */
    readonly problem: string | null;
    /**
     * The folder that sessions load CUDA and cuDNN from: the option, else what `tapir engines install cuda` installed; null if the
     * system's loader looks for them.
     */
    readonly libraries: string | null;
    /** Which libraries that folder lacks; null if none. */
    readonly problemOfLibraries: string | null;
    /** Libraries that the provider needs, as its file lists them. */
    readonly needed: readonly string[];
    /** Shell command that installs the provider. */
    readonly installCommand: string;
    readonly driver: DriverVersions;
    readonly gpus: readonly CudaDevice[];
    /** Number of GPUs that CUDA_VISIBLE_DEVICES hides. */
    readonly hidden: number;
    /** Where the list of GPUs comes from. */
    readonly source: 'nvidia-smi' | 'driver files' | 'none';
    /** Why nvidia-smi did not list GPUs; null if it did. */
    readonly problemOfList: string | null;
    readonly deviceFiles: readonly DeviceFile[];
  };
  /** Environment variables that matter here; null if a variable is not set. */
  readonly environment: Readonly<Record<string, string | null>>;
  /** Whether onnxruntime's usage reports are switched off, by this package or by the user. */
  readonly isTelemetryOff: boolean;
  /** Surprises that depend on settings. */
  readonly notes: readonly string[];
  /** Each device and the result of trying it: the CPU, the GPUs, WebGPU, CoreML on macOS, DirectML on Windows. */
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
 * Finds out which devices work on this machine, and why others do not.
 *
 * @remarks Opens a tiny model on each device and runs it, one device after the other, each in a child process that may crash or
 * hang without harm. It takes about a second per device. A device that does not work is a result, not an error.
 * @throws {@link TapirError} `OPTION_INVALID`, also if the folder of libraries does not exist.
 */
export async function diagnose(options: Options<DiagnoseOptions> = {}): Promise<Diagnosis> {
  const given = readOptions(DIAGNOSE_FIELDS, options, 'diagnose');
  if (given.cudaLibraries !== undefined) checkLibraryFolder(given.cudaLibraries);
  const [report, driver] = await Promise.all([listGpus(), readDriverVersions()]);
  const gpus = describeGpus(report);
  const devices = await probeAll(gpus, given);
  const installed = findRuntimePackage();
  return {
    node: readNode(),
    runtime: {
      version: installed?.version ?? null,
      providers: devices.find(({ providers }) => providers.length > 0)?.providers ?? [],
    },
    cpu: describeCpu(),
    instructionSets: listInstructionSets(),
    engines: await probeEngines(devices[0]!, given),
    cuda: {
      ...(await examineProvider(given.cudaLibraries, installed?.version)),
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

type ProviderDiagnosis = Pick<
  Diagnosis['cuda'],
  'provider' | 'problem' | 'libraries' | 'problemOfLibraries' | 'needed' | 'installCommand'
>;

async function examineProvider(
  cudaLibraries: string | undefined,
  runtime: string | undefined,
): Promise<ProviderDiagnosis> {
  const provider = findProvider() ?? null;
  const path = provider && isComplete(provider) ? providerPath(provider) : undefined;
  // The installed provider has the version that its folder says.
  const isForeign = path !== undefined && runtime !== undefined && provider?.isInstalled === false;
  const other = isForeign ? await whyOtherProvider(path, runtime) : undefined;
  const isStated = path !== undefined && cudaLibraries !== undefined;
  return {
    provider,
    problem: whyNoProvider() ?? other ?? null,
    libraries: cudaLibraries ?? installedCuda() ?? null,
    problemOfLibraries: (isStated ? whyIncomplete(cudaLibraries, path) : undefined) ?? null,
    needed: path === undefined ? [] : readNeeded(path),
    installCommand: CAN_INSTALL_CUDA ? INSTALL_CUDA : INSTALL_COMMAND,
  };
}

/** Tries one device after the other: two processes that start WebGPU or CUDA at once would disturb each other. */
async function probeAll(gpus: readonly CudaDevice[], options: DiagnoseOptions): Promise<ProbedDevice[]> {
  const found = cudaDevices(gpus.map((gpu) => ({ ...gpu, isUsable: true })));
  const devices: Device[] = [
    'cpu',
    ...(found.length > 0 ? found : ['cuda' as const]),
    'webgpu',
    ...devicesOfPlatform(),
    ...installedPlugins().map((name) => `plugin:${name}` as const),
  ];
  const probed: ProbedDevice[] = [];
  for (const device of devices) {
    options.signal?.throwIfAborted();
    probed.push({ device, ...(await probeDevice(readDevice('device', device), options)) });
  }
  options.signal?.throwIfAborted();
  return probed;
}

function readNode(): Diagnosis['node'] {
  const { version, versions, platform, arch } = process;
  return { version, abi: versions.modules, platform, arch, glibc: readGlibcVersion() };
}

/** This package switches telemetry off for its sessions, unless the user has set the variable. */
function isTelemetryOff(): boolean {
  return (process.env['ORT_DISABLE_TELEMETRY'] ?? '1') === '1';
}

function listNotes(): string[] {
  const notes: string[] = [];
  const order = process.env['CUDA_DEVICE_ORDER'];
  if (order !== undefined && order !== 'PCI_BUS_ID')
    notes.push(
      `CUDA_DEVICE_ORDER=${order}: CUDA numbers GPUs in another order than nvidia-smi and this list; leave it unset`,
    );
  if (availableParallelism() === 1) notes.push('one core: decoding images and running the model take turns');
  return notes;
}
