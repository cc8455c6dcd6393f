/**
 * `npx tsx bench/train.ts [--rounds N] [--threads 1,2] [--python PATH] [--only head,…] [--json FILE]`: steps of training against torch's on
 * the CPU, and Grad-CAM against a forward run. Each program is a process of its own, and they take steps in turn.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ratios, Report, spreadOf, watchOthers } from './measure.js';
import { inspectPython, needsPython } from './peers/python.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    threads: { type: 'string', default: '2' },
    python: { type: 'string', default: process.env['TAPIR_PEERS_PYTHON'] ?? 'python3' },
    only: { type: 'string' },
    json: { type: 'string' },
  },
});
const rounds = Math.max(3, Number(values.rounds));

/** A case, and the share of torch's speed that it is held to. */
const CASES = {
  head: { what: 'head of ResNet-50, 224 px, batch 16', rows: 16, bar: 1 },
  layer4: { what: 'layer4 and head of ResNet-50, 224 px, batch 16', rows: 16, bar: 0.7 },
  whole: { what: 'ResNet-18, batch statistics, 64 px, batch 8', rows: 8, bar: 0.4 },
} as const;
type Case = keyof typeof CASES;
/** Most forward runs that a Grad-CAM may cost. */
const MOST_RUNS = 2.5;

interface Step {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** A program that takes a step for each line of its input. */
class Worker {
  readonly #child;
  readonly #lines;
  readonly steps: Step[] = [];

  constructor(command: readonly string[]) {
    const [file, ...args] = command as [string, ...string[]];
    this.#child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** @param counts - Whether the step is kept; the first ones warm up. */
  async step(counts: boolean): Promise<void> {
    this.#child.stdin.write('\n');
    const step = (await this.#answer()) as Step;
    if (counts) this.steps.push(step);
  }

  /** Ends it, and returns the peak of its memory in MB. */
  async end(): Promise<number> {
    this.#child.stdin.end();
    return ((await this.#answer()) as { readonly rssMb: number }).rssMb;
  }

  async #answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error('a program ended before its answer');
    return JSON.parse(value);
  }
}

const script = (name: string): string => fileURLToPath(new URL(`peers/${name}`, import.meta.url));
const tapir = (name: string, threads: string): string[] => [
  process.execPath,
  script('train_tapir.js'),
  name,
  threads,
];

const report = new Report();
const WARM_UP = 2;

/** Two programs in turn: seconds and CPU seconds of the first over those of the second, and the peaks of both. */
async function race(first: readonly string[], second: readonly string[]) {
  const workers = [new Worker(first), new Worker(second)] as const;
  for (let i = 0; i < WARM_UP; i++) for (const worker of workers) await worker.step(false);
  const others = watchOthers();
  for (let round = 0; round < rounds; round++) for (const worker of workers) await worker.step(true);
  const [a, b] = workers.map(({ steps }) => steps) as [Step[], Step[]];
  const own = [...a, ...b].reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
  const othersShare = others(own * 1000);
  const over = (key: keyof Step) =>
    ratios(
      a.map((step) => step[key]),
      b.map((step) => step[key]),
    );
  const median = (steps: readonly Step[]): number => spreadOf(steps.map(({ seconds }) => seconds)).median;
  return {
    seconds: over('seconds'),
    cpu: over('cpuSeconds'),
    medians: [median(a), median(b)] as const,
    peaks: [await workers[0].end(), await workers[1].end()] as const,
    othersShare,
  };
}

const note = (othersShare: number): string =>
  `others used ${(othersShare * 100).toFixed(0)} % of the cores meanwhile`;

async function benchCase(name: Case, threads: string): Promise<void> {
  const { what, rows, bar } = CASES[name];
  const peer = [values.python, script('peer_train.py'), name, threads];
  // torch over us, so that more is better.
  const { seconds, cpu, medians, peaks, othersShare } = await race(peer, tapir(name, threads));
  const text = `${what}, ${threads} thread${threads === '1' ? '' : 's'}`;
  report.add(`${text}: rows/s / torch`, seconds, `>= ${bar}`, seconds.median >= bar);
  report.add(`${text}: torch's CPU time / ours`, cpu, null, true);
  const speeds = medians.map((taken) => (rows / taken).toFixed(1));
  console.log(
    `  rows/s: ${speeds[1]}, torch ${speeds[0]}; peak memory: ${peaks[1].toFixed(0)} MB, torch ${peaks[0].toFixed(0)} MB; ${note(othersShare)}`,
  );
  report.add(`${text}: peak memory / torch`, spreadOf([peaks[1] / peaks[0]]), null, true);
}

async function benchCam(threads: string): Promise<void> {
  const { seconds, medians, peaks, othersShare } = await race(
    tapir('grad-cam', threads),
    tapir('forward', threads),
  );
  report.add(
    `Grad-CAM of ResNet-50 / a forward run, ${threads} threads`,
    seconds,
    `<= ${MOST_RUNS}`,
    seconds.median <= MOST_RUNS,
  );
  console.log(
    `  ${(medians[0] * 1000).toFixed(0)} ms, forward ${(medians[1] * 1000).toFixed(0)} ms; peak memory: ${peaks[0].toFixed(0)} MB, forward ${peaks[1].toFixed(0)} MB; ${note(othersShare)}`,
  );
}

console.log(`${machineText()}; median [min–max] of ${rounds} paired rounds\n`);
const packages = inspectPython(values.python);
const missing = needsPython(packages, ['torch', 'torchvision']);
if (missing !== undefined)
  console.log(`torch is skipped: ${missing} (--python PATH, or TAPIR_PEERS_PYTHON)\n`);
const only = values.only?.split(',') ?? [...Object.keys(CASES), 'grad-cam'];
for (const threads of values.threads.split(',')) {
  for (const name of Object.keys(CASES) as Case[])
    if (missing === undefined && only.includes(name)) await benchCase(name, threads);
  if (only.includes('grad-cam')) await benchCam(threads);
}

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  const machine = describeMachine();
  const torch = typeof packages === 'string' ? null : (packages.found['torch'] ?? null);
  const content = { date: new Date().toISOString(), machine, torch, rounds, results: report.results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}
