/** `tapir doctor`: what runs here, what does not run and why, and what to do next. */
import { counted, shown } from '../../base/printable.js';
import type { Command } from 'commander';
import { CAPABILITIES } from '../../run/runtime/capabilities/capabilities.js';
import type { ProbedEngine } from '../../run/runtime/devices/probe-engines.js';
import type { CudaDevice } from '../../run/runtime/devices/device-list.js';
import { diagnose, type Diagnosis, type ProbedDevice } from '../../run/runtime/devices/diagnose.js';
import { CAN_INSTALL_CUDA, INSTALL_CUDA } from '../../run/runtime/devices/installed-cuda.js';
import { EXIT } from '../terminal/exit-code.js';
import { formatBytes } from '../../base/html/numbers.js';
import { LANE_FIELDS } from '../../run/runtime/lanes/lane-options.js';
import { parseCount } from '../flags/flag-values.js';
import { addFlags } from '../flags/option-flags.js';
import type { Terminal } from '../terminal/terminal.js';

export interface DoctorFlags {
  readonly json: boolean;
  readonly cudaLibraries?: string;
  /** Seconds. */
  readonly timeout: number;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('doctor')
    .description('try every device; say what runs here, what does not and why, and what to do')
    .option('--timeout <seconds>', 'time limit for each device', parseCount, 60)
    .option('--json', 'print JSON', false)
    .action((flags: DoctorFlags) => runDoctor(terminal, flags));
  addFlags(command, LANE_FIELDS, { cudaLibraries: '--cuda-libs <folder>' });
}

/** Examines and reports. Exit code 3 if no device works. */
export async function runDoctor(terminal: Terminal, flags: DoctorFlags): Promise<void> {
  const diagnosis = await diagnose({
    timeoutMs: flags.timeout * 1000,
    cudaLibraries: flags.cudaLibraries,
    signal: terminal.signal,
  });
  terminal.out(flags.json ? `${JSON.stringify(diagnosis, null, 2)}\n` : formatDiagnosis(diagnosis));
  if (!diagnosis.devices.some(({ isWorking }) => isWorking)) terminal.exitCode = EXIT.model;
}

/** `ok`, `missing`, or a fact that is neither. */
type Mark = 'ok' | 'missing' | 'note';
type Line = readonly [mark: Mark, what: string, text: string];

const MARKS: Readonly<Record<Mark, string>> = { ok: '✓', missing: '✗', note: '·' };

export function formatDiagnosis(diagnosis: Diagnosis): string {
  const lines: readonly Line[] = [
    ...systemLines(diagnosis),
    ...cudaLines(diagnosis),
    ...deviceLines(diagnosis),
    ...diagnosis.notes.map((note): Line => ['note', 'note', note]),
  ];
  const width = Math.max(...lines.map(([, what]) => what.length));
  const block = lines.map(
    ([mark, what, text]) => `${MARKS[mark]} ${shown(what).padEnd(width)}  ${shown(text)}`,
  );
  const next = nextSteps(diagnosis).map((step) => `  ${shown(step)}`);
  return `${[...block, ...(next.length > 0 ? ['', 'next:', ...next] : [])].join('\n')}\n`;
}

function systemLines(diagnosis: Diagnosis): Line[] {
  const { node, runtime, cpu, instructionSets, isTelemetryOff, environment } = diagnosis;
  const needsGlibc = node.platform === 'linux' && node.glibc === null;
  const libc = node.glibc === null ? '' : `, glibc ${node.glibc}`;
  const telemetry = environment['ORT_DISABLE_TELEMETRY'] ?? null;
  return [
    [
      needsGlibc ? 'missing' : 'ok',
      'node',
      `${node.version} (ABI ${node.abi}), ${node.platform} ${node.arch}${libc}`,
    ],
    runtime.version === null
      ? ['missing', 'onnxruntime', 'onnxruntime-node is not installed']
      : ['ok', 'onnxruntime', `${runtime.version}, compiled for ${runtime.providers.join(', ') || '?'}`],
    ['ok', 'processor', `${cpu.name}, ${counted(cpu.cores, 'core')}, ${formatBytes(cpu.memoryBytes)}`],
    ...(instructionSets.length > 0 ? [['note', 'it has', instructionSets.join(', ')] as const] : []),
    ...diagnosis.engines.flatMap(bindingLines),
    ...diagnosis.engines.filter(({ name }) => CAPABILITIES[name].findLibraries).map(engineLine),
    isTelemetryOff
      ? ['ok', 'telemetry', `off (ORT_DISABLE_TELEMETRY=1${telemetry === null ? ', set by tapir' : ''})`]
      : ['note', 'telemetry', `on, because ORT_DISABLE_TELEMETRY=${telemetry}`],
  ];
}

/** How an engine is called that can be called in several ways. */
function bindingLines({ name, binding }: ProbedEngine): Line[] {
  if (!binding) return [];
  const why = binding.why === undefined ? '' : `: ${binding.why}`;
  return [
    [why === '' ? 'ok' : 'note', 'binding', `${name} on the CPU is called through "${binding.name}"${why}`],
  ];
}

/** An engine that is not installed is no defect. */
function engineLine({ name, version, isWorking, reason, folder, precisions }: ProbedEngine): Line {
  if (isWorking)
    return ['ok', name, `${version ?? ''}, computes in ${precisions.join(' and ')}, ${folder ?? ''}`];
  return [folder === null ? 'note' : 'missing', name, reason ?? 'does not work'];
}

/** What there is of CUDA; nothing on a machine that has none of it. */
function cudaLines({ cuda, environment }: Diagnosis): Line[] {
  const { driver, gpus, hidden, problemOfList, deviceFiles, libraries, provider } = cuda;
  const problem = cuda.problemOfLibraries ?? (provider?.isInstalled === true ? cuda.problem : null);
  const lines: Line[] = [];
  if (libraries !== null || problem !== null)
    lines.push([problem === null ? 'ok' : 'missing', 'CUDA libraries', factOf(problem) ?? libraries!]);
  if (!hasGpu(cuda)) return lines;
  const visible = environment['CUDA_VISIBLE_DEVICES'] ?? null;
  const version = `${driver.driver ?? 'unknown version'}, runs CUDA up to ${driver.cuda ?? '?'}`;
  lines.push([problemOfList === null ? 'ok' : 'missing', 'NVIDIA driver', problemOfList ?? version]);
  for (const { path, problem: denied } of deviceFiles)
    if (denied !== null) lines.push(['missing', path, denied]);
  for (const gpu of gpus) lines.push(...gpuLines(gpu));
  if (visible !== null)
    lines.push(['note', 'visible GPUs', `CUDA_VISIBLE_DEVICES=${visible} hides ${hidden}`]);
  return lines;
}

/** The first clause of a reason: what is wrong. What to do stands after it. */
function factOf(reason: string | null): string | undefined {
  return reason?.split('; ')[0];
}

function hasGpu({ gpus, hidden }: Diagnosis['cuda']): boolean {
  return gpus.length + hidden > 0;
}

function gpuLines(gpu: CudaDevice): Line[] {
  const { index, name, memoryBytes, freeBytes, computeCapability, uuid, pciBusId, migSlices } = gpu;
  const facts = [
    name,
    memoryBytes === null ? '' : formatBytes(memoryBytes),
    freeBytes === null ? '' : `${formatBytes(freeBytes)} free`,
    computeCapability === null ? '' : `compute capability ${computeCapability}`,
    pciBusId ?? '',
    uuid ?? '',
  ];
  return [
    ['ok', `GPU ${index}`, facts.filter((fact) => fact !== '').join(', ')],
    ...migSlices.map((slice): Line => ['ok', '  slice', `${slice.profile}, ${slice.uuid}`]),
  ];
}

/** A sentence for each device; the remedy is a next step. The CPU runs models too, so another device that is not there is no defect. */
function deviceLines({ devices, cuda }: Diagnosis): Line[] {
  return devices.map(({ device, isWorking, reason, weakness, milliseconds }): Line => {
    const name = nameOf(device);
    if (weakness !== null) return ['missing', name, `works, but ${weakness}`];
    if (isWorking) return ['ok', name, `works (two small models ran in ${milliseconds} ms)`];
    if (name === 'cuda' && cuda.gpus.length === 0)
      return ['note', name, 'no NVIDIA GPU or driver is visible here'];
    return [/^c(?:pu|uda)/.test(name) ? 'missing' : 'note', name, factOf(reason) ?? 'does not work'];
  });
}

function nameOf(device: ProbedDevice['device']): string {
  return typeof device === 'string' ? device : `${device.type}:${device.id ?? 0}`;
}

const BFLOAT16_SETS: ReadonlySet<string> = new Set(['amx_bf16', 'avx512_bf16', 'bf16']);

/** What to do next, the most useful step first. */
function nextSteps({ runtime, cuda, devices, node, instructionSets, engines }: Diagnosis): string[] {
  const steps: string[] = [];
  const idle = engines.find(({ name, folder }) => folder === null && CAPABILITIES[name].precisions.bfloat16);
  if (idle && instructionSets.some((set) => BFLOAT16_SETS.has(set)))
    steps.push(
      `this CPU computes in bfloat16, several times as fast: tapir engines install ${idle.name}, then use --engine ${idle.name} --precision bfloat16`,
    );
  const works = (type: string): boolean =>
    devices.some(({ device, isWorking }) => isWorking && nameOf(device).startsWith(type));
  if (runtime.version === null) steps.push('npm install onnxruntime-node');
  if (!works('cpu') && node.platform === 'linux' && node.glibc === null)
    steps.push('use a Linux with glibc (Debian, Ubuntu, …): onnxruntime-node does not run on musl');
  if (devices.some(({ device, weakness }) => weakness !== null && nameOf(device).startsWith('cuda')))
    steps.push(
      `install cuDNN of the version that the CUDA provider takes${CAN_INSTALL_CUDA ? ` (${INSTALL_CUDA} brings it)` : ''}, or name its folder: --cuda-libs DIR`,
    );
  if (works('cuda') || !hasGpu(cuda)) return steps;
  if (cuda.gpus.length === 0) return [...steps, 'unset CUDA_VISIBLE_DEVICES, or name a GPU that exists'];
  const missing = [...new Set(devices.flatMap(({ missingLibraries }) => missingLibraries))];
  const lacking = missing.filter((name) => !name.startsWith('libcuda.so'));
  const isSystem = (cuda.provider?.files.length ?? 0) > 0;
  if (lacking.length < missing.length)
    steps.push('install the NVIDIA driver, or let the container have it (docker run --gpus all)');
  else if (cuda.deviceFiles.some(({ problem }) => problem !== null))
    steps.push('let this user read and write the /dev/nvidia* files (groups video and render)');
  else if (cuda.problem !== null && isSystem)
    steps.push(`get the CUDA provider of onnxruntime-node ${runtime.version}: ${cuda.installCommand}`);
  else if (lacking.length > 0)
    steps.push(
      `install the libraries ${lacking.join(', ')}${isSystem && CAN_INSTALL_CUDA ? ` (${INSTALL_CUDA} brings them)` : ''}, or name their folder: tapir doctor --cuda-libs DIR; then use tapir embed --set cudaLibraries=DIR, or the option cudaLibraries`,
    );
  return steps;
}
