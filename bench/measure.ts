/** Paired measurements: what is compared runs in turn, and the ratio is taken round by round. */

import { cpus } from 'node:os';

/** Numbers of one quantity over rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/** Seconds that a step takes. */
export async function secondsOf(step: () => unknown): Promise<number> {
  const started = performance.now();
  await step();
  return (performance.now() - started) / 1000;
}

/** Runs the steps in turn, once to warm up and then `rounds` times; returns seconds per step and round. */
export async function interleave<Name extends string>(
  rounds: number,
  steps: Readonly<Record<Name, () => unknown>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(steps) as Name[];
  const seconds = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let round = 0; round <= rounds; round++) {
    for (const name of names) {
      const taken = await secondsOf(steps[name]);
      if (round > 0) seconds[name].push(taken);
    }
  }
  return seconds;
}

/** Round by round, a over b. */
export function ratios(a: readonly number[], b: readonly number[]): Spread {
  return spreadOf(a.map((value, i) => value / b[i]!));
}

/** A figure, and what it is held to. */
export interface Result {
  readonly what: string;
  readonly value: Spread;
  /** Null for a figure that is only to be read beside the others. */
  readonly bar: string | null;
  readonly holds: boolean;
}

/** Prints a result as a line, and keeps it. */
export class Report {
  readonly results: Result[] = [];

  add(what: string, value: Spread, bar: string | null, holds: boolean, digits = 3): void {
    this.results.push({ what, value, bar, holds });
    const verdict = bar === null ? '' : `${holds ? 'ok' : 'MISSED'}: ${bar}`;
    console.log(`${what.padEnd(62)} ${format(value, digits).padStart(24)}   ${verdict}`);
  }
}

export function format({ median, min, max }: Spread, digits = 2): string {
  return `${median.toFixed(digits)} [${min.toFixed(digits)}–${max.toFixed(digits)}]`;
}

/**
 * Starts watching the cores; the function returned gives the share of them that other processes have used since, 0 to 1. It is
 * told the CPU time of processes that count as this one's own, in milliseconds.
 */
export function watchOthers(): (childrenMs?: number) => number {
  const before = coreTimes();
  return (childrenMs = 0) => {
    const now = coreTimes();
    return (now.busy - before.busy - (now.own - before.own) - childrenMs) / (now.all - before.all);
  };
}

/** Milliseconds of all cores together, and of this process. */
function coreTimes(): { readonly all: number; readonly busy: number; readonly own: number } {
  const times = cpus().map((core) => core.times);
  const all = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
  const { user, system } = process.cpuUsage();
  return { all, busy: all - times.reduce((sum, { idle }) => sum + idle, 0), own: (user + system) / 1000 };
}
