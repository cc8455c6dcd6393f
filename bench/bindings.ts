/**
 * The two bindings to ONNX Runtime, side by side: `npm run build && npx tsx bench/bindings.ts [--rounds N] [--json FILE]`. Read the
 * ratios: all rounds are interleaved, in an order that rotates. Memory is measured in separate processes.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { pruneModel, type Tensor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { createFeatureExtractor } from '../build/modules/extract/create-feature-extractor.js';
import { extractorInternals } from '../build/modules/extract/extractor.js';
import { buffersOf } from '../build/modules/onnx/tensor/tensor.js';
import { spreadOf, format, type Spread } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, json: { type: 'string' } },
});
const rounds = Number(values.rounds);
const folder = mkdtempSync(join(tmpdir(), 'tapir-bindings-'));
const model = join(folder, 'resnet50.onnx');
const root = fileURLToPath(new URL('..', import.meta.url));
const images = (count: number): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [count, 3, 224, 224],
  data: Float32Array.from({ length: count * 3 * 224 * 224 }, (_, i) => Math.sin(i)),
});

/** What takes turns: each binding, and the C binding with outputs that are given back, as embedding does. */
const WAYS = { node: 'node', c: 'c', 'c, outputs given back': 'c' } as const;
type Way = keyof typeof WAYS;
type PerWay<Value> = Record<Way, Value>;

/** Threads of a session look for work for a while after a run: those of the run before must be asleep. */
const PAUSE_MS = 200;
const WARM_UP = 2;

interface Times {
  readonly ms: number[];
  readonly cpuMs: number[];
}

const perWay = <Value>(make: (way: Way) => Value): PerWay<Value> =>
  Object.fromEntries((Object.keys(WAYS) as Way[]).map((way) => [way, make(way)])) as PerWay<Value>;

/** Runs that take turns, and the times of each way. */
async function race(run: PerWay<() => Promise<void>>): Promise<PerWay<Times>> {
  const times = perWay((): Times => ({ ms: [], cpuMs: [] }));
  const ways = Object.keys(WAYS) as Way[];
  for (let round = 0; round < rounds + WARM_UP; round++)
    for (const i of ways.keys()) {
      const way = ways[(i + round) % ways.length]!;
      await setTimeout(PAUSE_MS);
      const [began, cpu] = [performance.now(), process.cpuUsage()];
      await run[way]();
      const { user, system } = process.cpuUsage(cpu);
      if (round < WARM_UP) continue;
      times[way].ms.push(performance.now() - began);
      times[way].cpuMs.push((user + system) / 1000);
    }
  return times;
}

const median = (list: readonly number[]): number => spreadOf(list).median;

async function compareRuns(what: string, request: readonly string[]): Promise<object> {
  const extractors = {
    node: await createFeatureExtractor(model, request, { binding: 'node' }),
    c: await createFeatureExtractor(model, request, { binding: 'c' }),
  };
  const feed = { name: extractors.c.inputs[0]!.name, ...images(8) };
  const times = await race(
    perWay((way) => {
      const set = extractorInternals.of(extractors[WAYS[way]]);
      let room: ArrayBuffer[] = [];
      return async () => {
        const outputs = await set.runRows([feed], { signal: undefined, room });
        if (way === 'c, outputs given back') room = buffersOf(Object.values(outputs));
      };
    }),
  );
  await Promise.all(Object.values(extractors).map((one) => one.close()));
  const ratios = perWay((way): Record<'ratio' | 'cpuRatio', Spread> => ({
    ratio: spreadOf(times.node.ms.map((ms, i) => ms / times[way].ms[i]!)),
    cpuRatio: spreadOf(times.node.cpuMs.map((ms, i) => ms / times[way].cpuMs[i]!)),
  }));
  for (const [way, { ratio, cpuRatio }] of Object.entries(ratios))
    if (way !== 'node')
      console.log(`${what}: node / ${way}, time ${format(ratio)}, CPU time ${format(cpuRatio)}`);
  return { what, ratios, ms: perWay((way) => median(times[way].ms)) };
}

/** Two sessions of one model: memory, speed, and time to open. `lanes` opens them as two devices. */
function measureSessions(binding: string, how: 'streams' | 'lanes', cache: string): object {
  const code = `
    import { createFeatureExtractor } from 'onnx-tapir';
    const place = ${how === 'streams' ? "{ devices: [{ type: 'cpu', threads: 1 }], parallel: { sessionsPerDevice: 2, split: 'none' } }" : "{ devices: [{ type: 'cpu', id: 0, threads: 1 }, { type: 'cpu', id: 1, threads: 1 }], parallel: { split: 'none' } }"};
    const batch = { dtype: 'float32', dims: [8, 3, 224, 224], data: new Float32Array(8 * 3 * 224 * 224).fill(0.5) };
    const base = process.memoryUsage.rss();
    const began = performance.now();
    const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['avgpool'], { binding: '${binding}', cache: '${cache}', ...place });
    const openMs = performance.now() - began;
    const runs = () => Promise.all([0, 1, 2, 3].map(() => extractor.run(batch)));
    await runs();
    const cpu = process.cpuUsage();
    const started = performance.now();
    await runs();
    await runs();
    const ms = performance.now() - started;
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ openMs, ms, cpuMs: (user + system) / 1000, megabytes: (process.memoryUsage.rss() - base) / 1e6, peak: process.resourceUsage().maxRSS / 1e3 }));
    await extractor.close();`;
  const env = { ...process.env, XDG_CACHE_HOME: join(folder, 'cache') };
  const text = execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: root, env });
  return { binding, how, cache, ...(JSON.parse(text.toString()) as object) };
}

/** Milliseconds from the start of a process to the first vector. */
function firstVector(binding: string): number {
  const code = `
    import { createFeatureExtractor } from 'onnx-tapir';
    const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['layer1'], { binding: '${binding}' });
    await extractor.run({ dtype: 'float32', dims: [1, 3, 224, 224], data: new Float32Array(3 * 224 * 224) });
    console.log(performance.now());
    await extractor.close();`;
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: root }));
}

const network = await createModel('resnet50', { seed: 1 });
await (await pruneModel(network, ['layer1', 'avgpool'])).save(model);
const results: object[] = [];
try {
  results.push(await compareRuns('layer1 and avgpool, batch 8', ['layer1', 'avgpool']));
  results.push(await compareRuns('layer1, batch 8', ['layer1']));
  results.push(await compareRuns('avgpool, batch 8', ['avgpool']));
  const BINDINGS = ['node', 'c'] as const;
  const starts = BINDINGS.map((): number[] => []);
  for (let round = 0; round < rounds; round++)
    for (const [i, binding] of BINDINGS.entries()) starts[i]!.push(firstVector(binding));
  const start = spreadOf(starts[0]!.map((ms, i) => ms / starts[1]![i]!));
  console.log(`start to first vector: node / c ${format(start)}`);
  results.push({ what: 'start to first vector', ratio: start, ms: starts.map(median) });
  for (let round = 0; round < 3; round++)
    for (const cache of ['off', 'auto'])
      for (const [binding, how] of [
        ['node', 'streams'],
        ['c', 'lanes'],
        ['c', 'streams'],
      ] as const) {
        const measured = measureSessions(binding, how, cache);
        console.log(JSON.stringify(measured));
        results.push(measured);
      }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (values.json !== undefined) {
  console.log(machineText());
  const machine = describeMachine();
  writeFileSync(values.json, `${JSON.stringify({ machine, rounds, results }, null, 2)}\n`);
}
