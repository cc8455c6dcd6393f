/**
 * `npx tsx bench/large.ts [--nodes N,N] [--limit SECONDS] [--json FILE]`: what commands take for very large models. CPU time and peak memory
 * of each, for chains of Relu under the names of modules. A command that refuses such a model gives its error's code.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { modelBytes } from '../test/support/graphs.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '100000,1000000' },
    limit: { type: 'string', default: '300' },
    json: { type: 'string' },
  },
});
/** Seconds of wall time after which a command is killed. */
const limit = Number(values.limit);
const scratch = mkdtempSync(join(tmpdir(), 'tapir-large-'));
const command = fileURLToPath(new URL('../dist/lib/bin.cjs', import.meta.url));

/** What a command took. */
interface Taken {
  readonly nodes: number;
  readonly command: string;
  readonly cpuSeconds: number;
  readonly peakMegabytes: number;
  /** `ok`, the code of the refusal, or `over the limit`. */
  readonly outcome: string;
}

function writeChain(count: number): string {
  const nodes = Array.from({ length: count }, (_, i) => ({
    op: 'Relu',
    inputs: [`t${i}`],
    outputs: [`t${i + 1}`],
    name: `/layers.${Math.floor(i / 1000)}/blocks.${Math.floor(i / 10) % 100}/act.${i % 10}/Relu`,
  }));
  const dims = [1, 8];
  const bytes = modelBytes({
    inputs: [{ name: 't0', dims }],
    outputs: [{ name: `t${count}`, dims }],
    nodes,
  });
  const file = join(scratch, `${count}.onnx`);
  writeFileSync(file, bytes);
  return file;
}

/** Writes what a process took to its fourth stream when it ends. */
const METER = `data:text/javascript,${encodeURIComponent(
  `import { writeSync } from 'node:fs';
   process.on('exit', () => {
     const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
     writeSync(3, JSON.stringify([(userCPUTime + systemCPUTime) / 1e6, maxRSS / 1000]));
   });`,
)}`;

async function measure(nodes: number, args: readonly string[]): Promise<Taken> {
  const child = spawn(process.execPath, ['--import', METER, command, ...args], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    timeout: limit * 1000,
    killSignal: 'SIGKILL',
  });
  let [errors, figures] = ['', ''];
  child.stderr!.on('data', (text: Buffer) => (errors += text.toString()));
  child.stdio[3]!.on('data', (text: Buffer) => (figures += text.toString()));
  const code = await new Promise<number | null>((resolve) => void child.on('close', resolve));
  const [cpuSeconds, peakMegabytes] = JSON.parse(figures || '[0,0]') as [number, number];
  const refusal = /\[([A-Z_]+)\]/.exec(errors)?.[1] ?? `exit ${code}`;
  const outcome = figures === '' ? 'over the limit' : code === 0 ? 'ok' : refusal;
  return { nodes, command: args[0]!, cpuSeconds, peakMegabytes, outcome };
}

const results: Taken[] = [];
try {
  for (const count of values.nodes.split(',').map(Number)) {
    const model = writeChain(count);
    const out = (name: string): string => join(scratch, `${count}-${name}`);
    const runs = [
      ['nodes', model],
      ['nodes', model, '--depth', '1'],
      ['nodes', model, '--cost'],
      ['extract', model, '--return', `tensor:t${count}`, '-o', out('cut.onnx')],
      ['models', 'params', model],
      ['models', 'split', model, '--stages', '4', '-o', out('stages')],
      ['explore', model, '--out', out('page.html')],
    ];
    for (const args of runs) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other: commands at once would slow each other down
      const taken = await measure(count, args);
      const shown = { ...taken, command: [args[0], ...args.slice(2, args[0] === 'nodes' ? 4 : 2)].join(' ') };
      results.push(shown);
      const figures = `${taken.cpuSeconds.toFixed(1).padStart(8)} s CPU ${taken.peakMegabytes.toFixed(0).padStart(6)} MB`;
      console.log(`${String(count).padStart(8)} ${shown.command.padEnd(18)} ${figures}   ${taken.outcome}`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  console.log(machineText());
  const machine = describeMachine();
  const content = { date: new Date().toISOString(), machine, load: loadavg(), results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}
