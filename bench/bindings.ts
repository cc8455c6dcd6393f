/**
 * The two bindings to ONNX Runtime, side by side: `npx tsx bench/bindings.ts [--rounds N] [--json FILE]`. Read the ratios: all rounds
 * are interleaved. Memory is of processes of their own.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, pruneModel, type FeatureExtractor, type Tensor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { spreadOf, format } from './measure.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, json: { type: 'string' } },
});
const rounds = Number(values.rounds);
const folder = mkdtempSync(join(tmpdir(), 'tapir-bindings-'));
const model = join(folder, 'resnet50.onnx');
const root = fileURLToPath(new URL('..', import.meta.url));
const BINDINGS = ['node', 'c'] as const;

const images = (count: number): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [count, 3, 224, 224],
  data: Float32Array.from({ length: count * 3 * 224 * 224 }, (_, i) => Math.sin(i)),
});

interface Times {
  readonly ms: number[];
  readonly cpuMs: number[];
}

/** Runs that take turns, and the times of each binding. */
async function race(extractors: readonly FeatureExtractor[], batch: Tensor): Promise<Times[]> {
  const times = extractors.map((): Times => ({ ms: [], cpuMs: [] }));
  for (let round = 0; round < rounds + 2; round++)
    for (const [i, extractor] of extractors.entries()) {
      const [began, cpu] = [performance.now(), process.cpuUsage()];
      await extractor.run(batch);
      const { user, system } = process.cpuUsage(cpu);
      if (round < 2) continue;
      times[i]!.ms.push(performance.now() - began);
      times[i]!.cpuMs.push((user + system) / 1000);
    }
  return times;
}

const median = (list: readonly number[]): number => spreadOf(list).median;

async function compareRuns(what: string, request: readonly string[]): Promise<object> {
  const extractors = await Promise.all(
    BINDINGS.map((binding) => createFeatureExtractor(model, request, { binding })),
  );
  const [node, c] = (await race(extractors, images(8))) as [Times, Times];
  await Promise.all(extractors.map((one) => one.close()));
  const ratio = spreadOf(node.ms.map((ms, i) => ms / c.ms[i]!));
  const cpuRatio = spreadOf(node.cpuMs.map((ms, i) => ms / c.cpuMs[i]!));
  console.log(`${what}: node / c, time ${format(ratio)}, CPU time ${format(cpuRatio)}`);
  return { what, ratio, cpuRatio, ms: { node: median(node.ms), c: median(c.ms) } };
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
  const machine = { cpu: cpus()[0]?.model, cores: availableParallelism(), node: process.version };
  writeFileSync(values.json, `${JSON.stringify({ machine, rounds, results }, null, 2)}\n`);
}
