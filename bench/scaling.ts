/**
 * `npx tsx bench/scaling.ts [--rounds N] [--json FILE]`, part of `npm run bench`: what data parallelism gains and costs on the
 * CPU, with lanes of one thread: speed-up of two lanes, overhead of one lane over onnxruntime-node itself, and how long the
 * caller's event loop is held up. `bench/scaling_engines.py` measures what Ray, Spark, Dask and Daft cost per photo.
 *
 * Copies of a batch, each way (docs/decisions/008-copies.md has them with their cost, `bench/copies.ts` measures it):
 * input:  caller's array → lane's buffer (one copy, 1 MiB per turn of the loop), buffer moved to the thread, read there in place;
 * output: onnxruntime's memory → a JS buffer (one copy, in the thread), moved back, → the joined tensor (one copy, only if the
 * batch was split).
 */
import { pbkdf2 } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, pruneModel, type DataParallel, type Tensor } from 'onnx-tapir';
import * as ort from 'onnxruntime-node';
import { interleave, ratios, Report, spreadOf, watchOthers, type Spread } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, json: { type: 'string' } },
});
const rounds = Math.max(7, Number(values.rounds));
const model = fileURLToPath(new URL('../models/resnet50-untrained.onnx', import.meta.url));
const request = ['layer4', 'avgpool'];
const dims = [32, 3, 224, 224];
const data = Float32Array.from({ length: 32 * 3 * 224 * 224 }, (_, i) => Math.sin(i));
const batch: Tensor = { dtype: 'float32', dims, data };
const lanes = (count: number) =>
  Array.from({ length: count }, (_, id) => ({ type: 'cpu', id, threads: 1 }) as const);

/** Two lanes on two cores leave no core for anybody else. */
const MOST_OTHERS = 0.05;

const report = new Report();

/** Milliseconds between two looks of the event loop, while a step runs again and again. */
interface Delay {
  readonly p99: number;
  readonly max: number;
}

/**
 * Watches the event loop during a step.
 *
 * @remarks perf_hooks.monitorEventLoopDelay at 1 ms: its timer sleeps in between and counts in native code, so that watching
 * takes no core from the lanes, as a chain of setImmediate would, which keeps a core busy by itself. What it reports is the time
 * between two ticks, its own millisecond included, and with it the time that the system takes to wake this thread: hence the
 * floor, the same with as many busy threads that want nothing from this one.
 */
async function watchLoop(step: () => Promise<unknown>): Promise<Delay> {
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  await step();
  histogram.disable();
  return { p99: histogram.percentile(99) / 1e6, max: histogram.max / 1e6 };
}

/** Two threads of libuv's pool at work for about as long as two lanes at a batch. */
function busyThreads(): Promise<unknown> {
  const one = (): Promise<void> =>
    new Promise((resolve, reject) =>
      pbkdf2('a', 'b', 1_500_000, 64, 'sha512', (error) => (error ? reject(error) : resolve())),
    );
  return Promise.all([one(), one()]);
}

async function benchSpeed(one: DataParallel, two: DataParallel): Promise<void> {
  const pruned = await pruneModel(model, request);
  const bare = await ort.InferenceSession.create(await pruned.bytes(), { intraOpNumThreads: 1 });
  const seconds = await interleave(rounds, {
    bare: () => bare.run({ input: new ort.Tensor('float32', data, dims) }),
    one: () => one.run(batch),
    two: () => two.run(batch),
  });
  await bare.release();
  const speedUp = ratios(seconds.one, seconds.two);
  report.add('two lanes of one thread / one lane, images/s', speedUp, '>= 1.85', speedUp.median >= 1.85);
  const overhead = ratios(seconds.one, seconds.bare);
  report.add('one lane / onnxruntime-node itself, seconds', overhead, '<= 1.02', overhead.median <= 1.02);
  const rate = (list: readonly number[]): string => (dims[0]! / spreadOf(list).median).toFixed(1);
  console.log(
    `  images/s: bare ${rate(seconds.bare)}, one lane ${rate(seconds.one)}, two lanes ${rate(seconds.two)}`,
  );
}

async function benchLoop(two: DataParallel): Promise<void> {
  const watched: Record<'idle' | 'busy' | 'lanes', Delay[]> = { idle: [], busy: [], lanes: [] };
  for (let round = 0; round <= rounds; round++) {
    const now = {
      idle: await watchLoop(() => sleep(500)),
      busy: await watchLoop(busyThreads),
      // Two batches under way, as in a steady stream: one is cut out or joined while the other is run.
      lanes: await watchLoop(() => Promise.all([two.run(batch), two.run(batch)])),
    };
    if (round > 0) for (const key of ['idle', 'busy', 'lanes'] as const) watched[key].push(now[key]);
  }
  const spread = (key: keyof typeof watched, what: keyof Delay): Spread =>
    spreadOf(watched[key].map((delay) => delay[what]));
  const p99 = spread('lanes', 'p99');
  report.add('event loop, two lanes at work: p99 of its delay, ms', p99, '<= 10', p99.median <= 10, 1);
  report.add('event loop, two lanes at work: longest delay, ms', spread('lanes', 'max'), null, true, 1);
  report.add('  floor, two busy native threads: p99, ms', spread('busy', 'p99'), null, true, 1);
  report.add('  floor, two busy native threads: longest, ms', spread('busy', 'max'), null, true, 1);
  report.add('  floor, nothing at work: p99, ms', spread('idle', 'p99'), null, true, 1);
}

console.log(
  `${machineText()}; ResNet-50, batch of 32, ${request.join(' + ')}; median [min–max] of ${rounds} paired rounds\n`,
);
const othersSince = watchOthers();
const one = await createFeatureExtractor(model, request, { devices: lanes(1) });
const two = await createFeatureExtractor(model, request, { devices: lanes(2) });
await benchSpeed(one, two);
await benchLoop(two);
await Promise.all([one.close(), two.close()]);
const others = othersSince();
const share = `other processes used ${(100 * others).toFixed(0)} % of the cores meanwhile`;
console.log(others > MOST_OTHERS ? `\nNOT QUIET: ${share}; these figures are worth nothing` : `\n${share}`);

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  const machine = describeMachine();
  const content = {
    date: new Date().toISOString(),
    machine,
    rounds,
    othersShare: others,
    results: report.results,
  };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}
