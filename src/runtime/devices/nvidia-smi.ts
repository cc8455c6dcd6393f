/** GPUs as the NVIDIA driver's own tool lists them. Its texts are read here; visible-devices.ts says which of them count. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readDriverFiles } from './driver-files.js';
import { compareBusIds, type Gpu, type MigSlice } from './gpu.js';

/** All GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says. */
export interface GpuReport {
  /** By PCI bus id. */
  readonly gpus: readonly Gpu[];
  /** Where they were read. */
  readonly source: 'nvidia-smi' | 'driver files' | 'none';
  /** Why nvidia-smi did not list them. */
  readonly problem: string | null;
}

const FIELDS = ['uuid', 'pci.bus_id', 'name', 'memory.total', 'memory.free', 'driver_version'];
/** Unknown to drivers before 510. */
const NEW_FIELDS = ['mig.mode.current', 'compute_cap'];
const MEBIBYTE = 2 ** 20;
const TIMEOUT_MS = 10_000;

/** Lists the GPUs; a tool that is missing, fails, hangs or prints something else is no error, but a `problem`. */
export async function listGpus(timeoutMs: number = TIMEOUT_MS): Promise<GpuReport> {
  const asked = await query([...FIELDS, ...NEW_FIELDS], timeoutMs);
  const ended = /not a valid field/i.test(asked.problem ?? '') ? await query(FIELDS, timeoutMs) : asked;
  const gpus = parseGpus(ended.text);
  if (gpus.length > 0) {
    const slices = gpus.some(({ isDivided }) => isDivided)
      ? parseSlices((await runTool(['-L'], timeoutMs)).text)
      : new Map<string, MigSlice[]>();
    return { gpus: gpus.map((gpu) => withSlices(gpu, slices)), source: 'nvidia-smi', problem: null };
  }
  const problem = ended.problem ?? `nvidia-smi lists no GPU: ${firstLine(ended.text) || 'it prints nothing'}`;
  const found = readDriverFiles();
  return { gpus: found, source: found.length > 0 ? 'driver files' : 'none', problem };
}

function withSlices(gpu: Gpu, slices: ReadonlyMap<string, MigSlice[]>): Gpu {
  return { ...gpu, migSlices: slices.get(gpu.uuid ?? '') ?? [] };
}

function query(fields: readonly string[], timeoutMs: number): Promise<ToolEnd> {
  return runTool([`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'], timeoutMs);
}

/** Versions in the head of what nvidia-smi prints without flags. */
export interface DriverVersions {
  readonly driver: string | null;
  /** The newest CUDA that this driver runs. */
  readonly cuda: string | null;
}

/** Asks nvidia-smi for the versions of driver and CUDA. */
export async function readDriverVersions(timeoutMs: number = TIMEOUT_MS): Promise<DriverVersions> {
  return parseDriverVersions((await runTool([], timeoutMs)).text);
}

/** Reads the head of nvidia-smi's table. */
export function parseDriverVersions(text: string): DriverVersions {
  return {
    driver: /\b(?:Driver|KMD) Version:\s*(\d[\w.]*)/.exec(text)?.[1] ?? null,
    cuda: /\bCUDA (?:UMD )?Version:\s*(\d[\d.]*)/.exec(text)?.[1] ?? null,
  };
}

/** Reads what `--query-gpu` prints, a GPU a line, by PCI bus id; lines that are none are left out. */
export function parseGpus(text: string): Gpu[] {
  const gpus = text.split('\n').flatMap((line) => {
    const cells = line.split(',').map((cell) => cell.trim());
    const [uuid = '', pciBusId = ''] = cells;
    if (!/^GPU-[\w-]+$/.test(uuid) || !/^[\da-f]+(?::[\da-f]+)+\.\d$/i.test(pciBusId)) return [];
    // The name may hold commas; behind it are four cells more, or two with an old driver's fields.
    const isShort = cells.length === FIELDS.length;
    const after = cells.slice(isShort ? -3 : -5);
    if (after.length + 3 > cells.length) return [];
    const [total, free, driver, mig, capability] = after;
    const gpu: Gpu = {
      name: cells.slice(2, -after.length).join(', '),
      uuid,
      pciBusId,
      memoryBytes: parseMebibytes(total),
      freeBytes: parseMebibytes(free),
      driverVersion: parseCell(driver, /^\d[\w.]*$/),
      computeCapability: parseCell(capability, /^\d+\.\d+$/),
      isDivided: mig === 'Enabled',
      migSlices: [],
    };
    return [gpu];
  });
  return gpus.toSorted((a, b) => compareBusIds(a.pciBusId ?? '', b.pciBusId ?? ''));
}

function parseCell(cell: string | undefined, pattern: RegExp): string | null {
  return cell !== undefined && pattern.test(cell) ? cell : null;
}

function parseMebibytes(cell: string | undefined): number | null {
  return cell !== undefined && /^\d{1,9}$/.test(cell) ? Number(cell) * MEBIBYTE : null;
}

/** Reads the slices in what `nvidia-smi -L` prints, by the UUID of their GPU. */
export function parseSlices(text: string): Map<string, MigSlice[]> {
  const slices = new Map<string, MigSlice[]>();
  let gpu: string | undefined;
  for (const line of text.split('\n')) {
    const head = /^GPU \d+: .*\(UUID: (GPU-[\w-]+)\)/.exec(line);
    if (head) gpu = head[1];
    const slice = /^\s+MIG (\S+)\s+Device\s+\d+:\s+\(UUID: (MIG-[\w/-]+)\)/.exec(line);
    if (!slice || gpu === undefined) continue;
    slices.set(gpu, [...(slices.get(gpu) ?? []), { profile: slice[1]!, uuid: slice[2]! }]);
  }
  return slices;
}

interface ToolEnd {
  readonly text: string;
  readonly problem: string | null;
}

/** Where the Windows subsystem for Linux has it, which is not on the path of every process. */
const WSL_TOOL = '/usr/lib/wsl/lib/nvidia-smi';

function runTool(args: readonly string[], timeoutMs: number, tool = 'nvidia-smi'): Promise<ToolEnd> {
  return new Promise((resolve) => {
    const options = { encoding: 'utf8', maxBuffer: MEBIBYTE, windowsHide: true } as const;
    const child = execFile(tool, args, options, (error, stdout, stderr) => {
      clearTimeout(timer);
      if (error?.code === 'ENOENT' && tool !== WSL_TOOL && existsSync(WSL_TOOL))
        resolve(runTool(args, timeoutMs, WSL_TOOL));
      else resolve({ text: stdout, problem: error && problemOf(error, `${stdout}\n${stderr}`) });
    });
    // A broken driver leaves the tool in a system call, where even SIGKILL waits: it is left behind.
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.unref();
      resolve({ text: '', problem: `nvidia-smi does not answer within ${timeoutMs / 1000} s` });
    }, timeoutMs);
  });
}

function problemOf(error: Error & { code?: unknown }, printed: string): string {
  if (error.code === 'ENOENT') return 'nvidia-smi is not there (no NVIDIA driver, or not on the path)';
  const line = firstLine(printed) || `it ends with ${String(error.code)}`;
  return `nvidia-smi fails: ${line}`;
}

function firstLine(text: string): string {
  const line = text.split('\n').find((one) => one.trim() !== '') ?? '';
  return line.trim().slice(0, 200);
}
