/** Lists GPUs with nvidia-smi, the tool of the NVIDIA driver. Which of them are visible is decided in device-list.ts. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readDriverFiles } from './driver-files.js';
import { compareBusIds, type Gpu, type MigSlice } from './gpu.js';

/** All GPUs of the machine, visible or not. */
export interface GpuReport {
  /** Ordered by PCI bus id. */
  readonly gpus: readonly Gpu[];
  /** Where the list comes from. */
  readonly source: 'nvidia-smi' | 'driver files' | 'none';
  /** Why nvidia-smi did not list GPUs; null if it did. */
  readonly problem: string | null;
}

const FIELDS = ['uuid', 'pci.bus_id', 'name', 'memory.total', 'memory.free', 'driver_version'];
/** Fields that drivers before 510 do not know. */
const NEW_FIELDS = ['mig.mode.current', 'compute_cap'];
const MEBIBYTE = 2 ** 20;
const TIMEOUT_MS = 10_000;

/** Lists the GPUs. If nvidia-smi is missing, fails, hangs or prints something else, that is reported as `problem`. */
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
  const problem =
    ended.problem ?? `nvidia-smi lists no GPU: ${firstLine(ended.text) || 'it printed nothing'}`;
  const found = readDriverFiles();
  return { gpus: found, source: found.length > 0 ? 'driver files' : 'none', problem };
}

function withSlices(gpu: Gpu, slices: ReadonlyMap<string, MigSlice[]>): Gpu {
  return { ...gpu, migSlices: slices.get(gpu.uuid ?? '') ?? [] };
}

function query(fields: readonly string[], timeoutMs: number): Promise<ToolEnd> {
  return runTool([`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'], timeoutMs);
}

/** Versions that nvidia-smi reports. */
export interface DriverVersions {
  readonly driver: string | null;
  /** Newest version of CUDA that this driver supports. */
  readonly cuda: string | null;
}

/** Asks nvidia-smi for the versions of driver and CUDA. */
export async function readDriverVersions(timeoutMs: number = TIMEOUT_MS): Promise<DriverVersions> {
  return parseDriverVersions((await runTool([], timeoutMs)).text);
}

/** Reads the head of the table that nvidia-smi prints without flags. */
export function parseDriverVersions(text: string): DriverVersions {
  return {
    driver: /\b(?:Driver|KMD) Version:\s*(\d[\w.]*)/.exec(text)?.[1] ?? null,
    cuda: /\bCUDA (?:UMD )?Version:\s*(\d[\d.]*)/.exec(text)?.[1] ?? null,
  };
}

/** Reads the output of `--query-gpu`, one GPU per line, and orders it by PCI bus id. Other lines are ignored. */
export function parseGpus(text: string): Gpu[] {
  const gpus = text.split('\n').flatMap((line) => {
    const cells = line.split(',').map((cell) => cell.trim());
    const [uuid = '', pciBusId = ''] = cells;
    if (!/^GPU-[\w-]+$/.test(uuid) || !/^[\da-f]+(?::[\da-f]+)+\.\d$/i.test(pciBusId)) return [];
    // The name may contain commas. Five cells follow it, or three with the fields of old drivers.
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

/** Reads the slices from the output of `nvidia-smi -L`, by the UUID of their GPU. */
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

/** Its place in the Windows Subsystem for Linux, where it may not be on the path. */
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
    // With a broken driver the tool may hang in a system call, which SIGKILL does not interrupt. Do not wait for it.
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.unref();
      resolve({ text: '', problem: `nvidia-smi did not answer within ${timeoutMs / 1000} s` });
    }, timeoutMs);
  });
}

function problemOf(error: Error & { code?: unknown }, printed: string): string {
  if (error.code === 'ENOENT') return 'nvidia-smi was not found (no NVIDIA driver, or it is not on the path)';
  const line = firstLine(printed) || `exit code ${String(error.code)}`;
  return `nvidia-smi failed: ${line}`;
}

function firstLine(text: string): string {
  const line = text.split('\n').find((one) => one.trim() !== '') ?? '';
  return line.trim().slice(0, 200);
}
