/** Runs a command to its end and says what it took: wall time, CPU time of all its processes, memory. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchOthers } from '../measure.js';

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** What a run took. CPU time and memory come from /proc: null where there is none. */
export interface Run {
  readonly wallS: number;
  /** User and system, of the process and of all that it waited for. */
  readonly cpuS: number | null;
  /** Peak of the largest process. */
  readonly rssMb: number | null;
  /** Peak of the sum over all its processes, in which a page that several map counts once. */
  readonly pssMb: number | null;
  /** Share of the cores that other processes used meanwhile, 0 to 1; it counts this run's own where /proc is missing. */
  readonly othersShare: number;
  /** The last line that it printed, read as JSON, if it is some. */
  readonly printed: Readonly<Record<string, unknown>>;
}

/** Linux counts CPU time in these for all programs, whatever the kernel's own tick is. */
const TICKS_PER_S = 100;

/** A peak is missed if the process ends within this time of it. */
const RSS_EVERY_MS = 50;
/** Summing up PSS makes the kernel walk all pages, 13 ms for 800 MB: seldom, so that it does not count. */
const PSS_EVERY_MS = 1000;

const readProc = (path: string): string | undefined => {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return undefined; // another system, or the process has ended
  }
};

/** CPU time of all children that have ended, with theirs, in seconds. */
export function endedChildrenCpuS(): number | null {
  const fields = readProc('self/stat')
    ?.replace(/^.*\) /su, '')
    .split(' ');
  return fields === undefined ? null : (Number(fields[13]) + Number(fields[14])) / TICKS_PER_S;
}

function megabytes(path: string, field: string): number | null {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'mu').exec(readProc(path) ?? '')?.[1];
  return kib === undefined ? null : (Number(kib) * 1024) / 1e6;
}

/** The process and all below it. */
function listTree(root: number): number[] {
  const pids = [root];
  for (const pid of pids) {
    let tasks: string[] = [];
    try {
      tasks = readdirSync(`/proc/${pid}/task`);
    } catch {
      continue; // it has ended
    }
    for (const task of tasks) {
      const children = readProc(`${pid}/task/${task}/children`)?.trim() ?? '';
      if (children !== '') pids.push(...children.split(' ').map(Number));
    }
  }
  return pids;
}

/** Watches the memory of a process and those below it, until stopped. */
function watchMemory(root: number | undefined): {
  readonly stop: () => void;
  readonly peaks: () => Pick<Run, 'rssMb' | 'pssMb'>;
} {
  let pids = root === undefined ? [] : [root];
  let rssMb: number | null = null;
  let pssMb: number | null = null;
  const higher = (a: number | null, b: number | null): number | null =>
    b === null ? a : Math.max(a ?? 0, b);
  const timers = [
    setInterval(() => {
      for (const pid of pids) rssMb = higher(rssMb, megabytes(`${pid}/status`, 'VmHWM'));
    }, RSS_EVERY_MS),
    setInterval(() => {
      pids = pids.slice(0, 1).flatMap(listTree);
      const parts = pids
        .map((pid) => megabytes(`${pid}/smaps_rollup`, 'Pss'))
        .filter((part) => part !== null);
      if (parts.length > 0)
        pssMb = higher(
          pssMb,
          parts.reduce((sum, part) => sum + part, 0),
        );
    }, PSS_EVERY_MS),
  ];
  return {
    stop: () => {
      for (const timer of timers) clearInterval(timer);
    },
    peaks: () => ({ rssMb, pssMb }),
  };
}

/** Waits, at most so long, for half a second in which others use less than a twentieth of the cores. */
export async function waitForQuiet(mostS: number): Promise<void> {
  const end = performance.now() + mostS * 1000;
  while (performance.now() < end) {
    const others = watchOthers();
    await sleep(500);
    if (others() < 0.05) return;
  }
}

function readPrinted(text: string): Run['printed'] {
  try {
    return JSON.parse(text.trim().split('\n').at(-1)!) as Run['printed'];
  } catch {
    return {}; // not every command prints some
  }
}

/** Runs a command; throws with what it wrote to stderr if it fails. */
export async function runCommand({ file, args, env }: Command): Promise<Run> {
  const cpuBefore = endedChildrenCpuS();
  const othersSince = watchOthers();
  const started = performance.now();
  const child = spawn(file, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-4000)));
  const ended = once(child, 'exit').then(([code]) => ({
    code: code as number | null,
    wallS: (performance.now() - started) / 1000,
  }));
  const closed = once(child, 'close');
  const memory = watchMemory(child.pid);
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  // A file that cannot be started is an 'error', which all of these reject with.
  const [{ code, wallS }] = await Promise.all([ended, closed]).finally(() => {
    memory.stop();
    process.off('exit', kill);
  });
  const cpuAfter = endedChildrenCpuS();
  const cpuS = cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore;
  const othersShare = Math.max(0, othersSince((cpuS ?? 0) * 1000));
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}\nended with ${code}:\n${stderr}`);
  return { wallS, cpuS, ...memory.peaks(), othersShare, printed: readPrinted(stdout) };
}
