/**
 * `npx tsx bench/stages.ts [--rounds N] [--cycles N] [--json FILE]`, part of `npm run bench`: what stages gain and cost on the CPU. A
 * pipeline of two lanes of one thread against the same stages one after the other; exits of a ResNet-50 where rows leave, and where none
 * does, in CPU time; what is left in memory after pipelines were opened, run and closed.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, pruneModel, type Device, type Tensor } from 'onnx-tapir';
import type { ExitHead } from '../src/extract/stages/exit-model.js';
import { createEarlyExit, Pipeline, splitModel, type Exit, type SplitOptions } from 'onnx-tapir/stages';
import { interleave, ratios, Report, spreadOf } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    cycles: { type: 'string', default: '200' },
    json: { type: 'string' },
  },
});
const rounds = Math.max(5, Number(values.rounds));
const model = fileURLToPath(new URL('../models/resnet50-untrained.onnx', import.meta.url));
const report = new Report();
const lane = (id: number) => ({ type: 'cpu', id, threads: 1 }) as const;

function images(rows: number): Tensor {
  const dims = [rows, 3, 224, 224];
  return {
    dtype: 'float32',
    dims,
    data: Float32Array.from({ length: rows * 3 * 224 * 224 }, (_, i) => Math.sin(i)),
  };
}

/** Parts of 4 of a batch of 32. */
const [ROWS, PART] = [32, 4];

async function benchPipeline(by: SplitOptions['by']): Promise<void> {
  const batch = images(ROWS);
  const pipeline = await Pipeline.create(model, ['avgpool'], {
    devices: [lane(0), lane(1)],
    microBatch: PART,
    by,
  });
  const { stages, balance } = await splitModel(
    pipeline.model,
    { stages: 2 },
    { by, batch: by === 'time' ? PART : 0 },
  );
  const open = await Promise.all(
    stages.map((stage) => createFeatureExtractor(stage.model, undefined, { device: lane(0) })),
  );
  const oneAfterTheOther = async (): Promise<void> => {
    const size = batch.data.length / ROWS;
    for (let row = 0; row < ROWS; row += PART) {
      const data = (batch.data as Float32Array).slice(row * size, (row + PART) * size);
      let known: Record<string, Tensor> = {
        [open[0]!.inputs[0]!.name]: { dtype: 'float32', dims: [PART, 3, 224, 224], data },
      };
      for (const stage of open) known = await stage.run(known, { transfer: true });
    }
  };
  const seconds = await interleave(rounds, { chain: oneAfterTheOther, pipeline: () => pipeline.run(batch) });
  const gain = ratios(seconds.chain, seconds.pipeline);
  report.add(
    `pipeline of two stages by ${by} / one after the other, images/s`,
    gain,
    '>= 1.6',
    gain.median >= 1.6,
  );
  console.log(
    `  balance ${balance.toFixed(3)}, so at most ${(2 * balance).toFixed(2)} in a steady stream, and 8/9 of it for 8 parts`,
  );
  await Promise.all([pipeline.close(), ...open.map((one) => one.close())]);
}

/** Seconds of all cores that a step takes. */
async function cpuSeconds(step: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await step();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** 8 rows, of which 5 go on after layer2, and 2 after layer3. */
const [EXIT_ROWS, LEFT] = [8, [5, 2]] as const;

async function benchExits(): Promise<void> {
  const head = (features: number): ExitHead => ({
    weight: {
      dims: [1000, features],
      data: Float32Array.from({ length: 1000 * features }, (_, i) => Math.cos(i)),
    },
    pool: 'avg',
  });
  const exits: Exit[] = [
    { node: 'layer2', head: head(512), until: ({ index }) => index >= LEFT[0] },
    { node: 'layer3', head: head(1024), until: ({ index }) => index >= LEFT[1] },
  ];
  const devices = [lane(0)];
  const early = await createEarlyExit(model, { fc: 'logits' }, { exits, devices });
  const full = await createFeatureExtractor(model, { fc: 'logits' }, { device: lane(0) });
  const batch = images(EXIT_ROWS);
  const stay = { until: [() => false, () => false] };
  const [left, whole, none]: number[][] = [[], [], []];
  for (let round = 0; round <= rounds; round++) {
    const taken = [
      await cpuSeconds(() => early.run(batch)),
      await cpuSeconds(() => full.run(batch)),
      await cpuSeconds(() => early.run(batch, stay)),
    ];
    if (round > 0) [left, whole, none].forEach((list, i) => list!.push(taken[i]!));
  }
  const some = ratios(left!, whole!);
  report.add('exits, 8/5/2 rows left / full run, CPU time', some, '<= 0.85', some.median <= 0.85);
  const all = ratios(none!, whole!);
  report.add('exits, no row leaves / full run, CPU time', all, '<= 1.15', all.median <= 1.15);
  await Promise.all([early.close(), full.close()]);
}

/** Megabytes of this process, and its threads. */
function held(): { readonly megabytes: number; readonly threads: number } {
  globalThis.gc?.();
  return { megabytes: process.memoryUsage().rss / 1e6, threads: readdirSync('/proc/self/task').length };
}

/** Looks at the memory, spread over the cycles. */
const SAMPLES = 10;

async function benchCycles(): Promise<void> {
  const cycles = Number(values.cycles);
  const batch = images(1);
  const cycle = async (): Promise<void> => {
    const pipeline = await Pipeline.create(model, ['layer1'], {
      devices: [lane(0), lane(1)],
      cuts: ['maxpool'],
    });
    await pipeline.run(batch);
    await pipeline.close();
  };
  // The first cycles fill pools.
  for (let i = 0; i < cycles / 10; i++) await cycle();
  const step = Math.ceil(cycles / SAMPLES);
  const samples = [held()];
  for (let i = 1; i <= step * SAMPLES; i++) {
    await cycle();
    if (i % step === 0) samples.push(held());
  }
  // Single samples are noisy, so each pair gives a slope, and their median counts (Theil and Sen).
  const slopes = samples.flatMap((later, i) =>
    samples.slice(0, i).map((earlier, j) => (later.megabytes - earlier.megabytes) / ((i - j) * step)),
  );
  const perCycle = spreadOf(slopes);
  const what = `${step * SAMPLES} cycles of open, run, close`;
  report.add(`${what}: MB that stay, per cycle`, perCycle, '<= 0.05', perCycle.median <= 0.05);
  const more = samples.at(-1)!.threads - samples[0]!.threads;
  report.add(`${what}: threads that stay`, spreadOf([more]), '<= 0', more <= 0, 0);
}

/** A stage with two thirds of the work, on one device and on two: on two cores, the limit is 1.33. */
async function benchSlowStage(): Promise<void> {
  const batch = images(ROWS);
  const pruned = await pruneModel(model, ['avgpool']);
  const { crossing } = await splitModel(pruned, { stages: 3 });
  const [cut] = crossing[0]!.tensors;
  const open = (slow: readonly Device[]): Promise<Pipeline<'avgpool'>> =>
    Pipeline.create(model, ['avgpool'], {
      stages: [{ until: `tensor:${cut}`, devices: [lane(0)] }, { devices: slow }],
      microBatch: PART,
    });
  const one = await open([lane(1)]);
  const two = await open([lane(1), lane(2)]);
  const times = await interleave(rounds, {
    one: async () => void (await one.run(batch)),
    two: async () => void (await two.run(batch)),
  });
  const gained = ratios(times.one, times.two);
  report.add('slow stage: one device / two devices', gained, '>= 1.2', gained.median >= 1.2);
  await Promise.all([one.close(), two.close()]);
}

process.removeAllListeners('warning');
process.on('warning', () => undefined);
console.log(`${machineText()}; ResNet-50, median [min–max] of ${rounds} paired rounds\n`);
await benchPipeline('macs');
await benchPipeline('time');
await benchSlowStage();
await benchExits();
await benchCycles();

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  const machine = describeMachine();
  const content = { date: new Date().toISOString(), machine, rounds, results: report.results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}
