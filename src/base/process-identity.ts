/** Which process wrote a file, and whether it still runs. */
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';

/** A process. Systems reuse process numbers; the start time and the boot tell two processes of one number apart. */
export interface ProcessIdentity {
  readonly host: string;
  /** Null if the system has no such identifier. */
  readonly boot: string | null;
  readonly pid: number;
  /** The start time in the system's own unit; null if the system does not report it. */
  readonly started: string | null;
}

/** Identifies this process. */
export async function identifyProcess(): Promise<ProcessIdentity> {
  const { pid } = process;
  const [boot, started] = await Promise.all([bootId(), startOf(pid)]);
  return { host: hostname(), boot, pid, started };
}

/** Reads what {@link identifyProcess} gave, from JSON; undefined if the text is damaged. */
export function parseIdentity(text: string): ProcessIdentity | undefined {
  try {
    const identity = JSON.parse(text) as Partial<ProcessIdentity> | null;
    if (typeof identity?.pid !== 'number' || typeof identity.host !== 'string') return undefined;
    const { host, pid, boot = null, started = null } = identity;
    return { host, pid, boot, started };
  } catch {
    return undefined;
  }
}

/** Whether a process still runs. A process of another machine counts as running: its state is unknown. */
export async function isRunning({ host, boot, pid, started }: ProcessIdentity): Promise<boolean> {
  if (host !== hostname()) return true;
  if (boot !== null && boot !== (await bootId())) return false;
  if (started !== null) return started === (await startOf(pid));
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Linux has an identifier for each boot; the result is null on other systems. */
async function bootId(): Promise<string | null> {
  const text = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => null);
  return text?.trim() ?? null;
}

/**
 * Returns the start time of a process: field 22 of its stat line. The process name, field 2, may contain any character.
 * Null if the process does not exist or is a zombie: in a container without an init, zombies stay.
 */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return /[ZXx]/.test(fields[0] ?? '') ? null : (fields[19] ?? null);
}
