/**
 * What a device does with a model: `run.sh` starts it on a GPU machine; here `npx tsx bench/gpu/measure.ts --device cpu
 * --model tiny --sizes 1,2,4 --seconds 0.05` runs the same steps. Each step stands alone: one that fails is listed under
 * `problems`, and the others are measured all the same. Writes JSON to --out, with the hardware named.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import * as tapir from 'onnx-tapir';
import { createFeatureExtractor, type Device, type RunInput, type Tensor } from 'onnx-tapir';
import { buildResNet } from '../../models/resnet.js';
import * as more from './more.js';
import { measureWays, median, msOf, round } from './ways.js';

const { values } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda:0' },
    model: { type: 'string', default: 'resnet50' },
    sizes: { type: 'string', default: '1,2,4,8,16,32,64,128,256' },
    seconds: { type: 'string', default: '1' },
    out: { type: 'string' },
    only: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const sizes = values.sizes.split(',').map(Number);
const isTiny = values.model === 'tiny';
const side = isTiny ? 64 : 224;
const model = isTiny
  ? buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: side, classes: 10 }).bytes
  : values.model === 'resnet50'
    ? buildResNet().bytes
    : values.model;
const ALL = ['layer1', 'layer2', 'layer3', 'layer4', 'avgpool'];
const TOLERANCE = 1e-3;

const results: Record<string, unknown> = {};
const problems: Record<string, string> = {};

async function measure(name: string, step: () => unknown): Promise<void> {
  if (values.only !== undefined && values.only !== name) return;
  try {
    results[name] = await step();
    console.log(`${name}: ${JSON.stringify(results[name])}`);
  } catch (error) {
    const { code, message } = error as tapir.TapirError;
    problems[name] = `${code ?? 'Error'}: ${message}`;
    console.log(`${name} FAILED: ${problems[name]}`);
  }
}

function batchOf(rows: number): Tensor<'float32'> {
  const data = new Float32Array(rows * 3 * side * side);
  for (let i = 0; i < data.length; i++) data[i] = Math.sin(i * 0.37);
  return { dtype: 'float32', dims: [rows, 3, side, side], data };
}

interface Runs {
  run(input: RunInput): Promise<unknown>;
}

/** Images per second with so many batches under way, for about `seconds`, at least 5 batches. */
async function rateOf(
  runs: Runs,
  input: RunInput,
  rows: number,
  atOnce: number,
  least = seconds,
): Promise<number> {
  let done = 0;
  const started = performance.now();
  const isOver = (): boolean => done >= 5 && performance.now() - started >= 1000 * least;
  const work = async (): Promise<void> => {
    while (!isOver()) {
      await runs.run(input);
      done++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return (1000 * done * rows) / (performance.now() - started);
}

function nvidiaSmi(): string[] | null {
  try {
    const query = '--query-gpu=name,memory.total,driver_version,clocks.sm,power.limit';
    return execFileSync('nvidia-smi', [query, '--format=csv,noheader'], { encoding: 'utf8' })
      .trim()
      .split('\n');
  } catch {
    return null;
  }
}

/** Features on the device against those on the CPU: the largest difference over the largest value, by output. */
async function compareWithCpu(device: Device): Promise<unknown> {
  const input = batchOf(4);
  const [expected, actual] = await Promise.all(
    ['cpu' as const, device].map(async (where) => {
      await using extractor = await createFeatureExtractor(model, ALL, { device: where });
      return extractor.run(input);
    }),
  );
  const outputs = ALL.map((name) => {
    const a = actual![name]!.data as Float32Array;
    const b = expected![name]!.data as Float32Array;
    const largest = b.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const difference = b.reduce((most, value, i) => Math.max(most, Math.abs(value - a[i]!)), 0);
    return [name, difference / largest] as const;
  });
  const isEqual = outputs.every(([, relative]) => relative <= TOLERANCE);
  return {
    isEqual,
    tolerance: TOLERANCE,
    relative: Object.fromEntries(outputs.map(([name, relative]) => [name, round(relative)])),
  };
}

/** cuDNN and cuBLAS compute in TF32 (10 bits of mantissa) unless told otherwise; read at the start of the process. */
function compareWithoutTf32(device: string): unknown {
  const args = [fileURLToPath(import.meta.url), '--device', device, '--model', values.model];
  const stdout = execFileSync(process.execPath, [...process.execArgv, ...args, '--only', 'equalToCpu'], {
    env: { ...process.env, NVIDIA_TF32_OVERRIDE: '0' },
    encoding: 'utf8',
  });
  const line = /^equalToCpu: (.*)$/m.exec(stdout);
  if (!line) throw new Error(stdout.trim());
  return JSON.parse(line[1]!);
}

interface SizeRow {
  readonly rows: number;
  /** On a GPU with the search of algorithms for this size. */
  readonly firstMs: number;
  readonly secondMs: number;
  readonly ms: number;
  readonly perSecond: number;
  readonly perSecondTwoUnderWay: number;
}

/** A fresh extractor for each size: none is filled up to another's. */
async function measureSizes(device: Device): Promise<SizeRow[]> {
  const table: SizeRow[] = [];
  for (const rows of sizes) {
    await using extractor = await createFeatureExtractor(model, ['avgpool'], { device });
    const input = batchOf(rows);
    const run = (): Promise<unknown> => extractor.run(input);
    try {
      const firstMs = await msOf(run);
      const secondMs = await msOf(run);
      const list: number[] = [];
      const until = performance.now() + 1000 * seconds;
      while (list.length < 5 || performance.now() < until) list.push(await msOf(run));
      const ms = median(list);
      const twoUnderWay = await rateOf(extractor, input, rows, 2);
      table.push({
        rows,
        firstMs: round(firstMs),
        secondMs: round(secondMs),
        ms: round(ms),
        perSecond: round((1000 * rows) / ms),
        perSecondTwoUnderWay: round(twoUnderWay),
      });
    } catch (error) {
      problems[`size ${rows}`] = String(error);
      break;
    }
  }
  return table;
}

const ROUNDS = isTiny ? 2 : 7;

/** Ratios of rates, round by round. */
async function compareRates(a: () => Promise<number>, b: () => Promise<number>): Promise<unknown> {
  const pairs: [number, number][] = [];
  for (let i = 0; i <= ROUNDS; i++) {
    const pair: [number, number] = [await a(), await b()];
    if (i > 0) pairs.push(pair);
  }
  const quotients = pairs.map(([x, y]) => y / x);
  return {
    perSecond: pairs.map((pair) => pair.map(round)),
    ratio: round(median(quotients)),
    min: round(Math.min(...quotients)),
    max: round(Math.max(...quotients)),
  };
}

/** Two sessions on the device against one, both with enough batches under way to keep them busy. */
async function compareSessions(device: Device, rows: number): Promise<unknown> {
  const open = (sessionsPerDevice: number) =>
    createFeatureExtractor(model, ['avgpool'], { devices: [device], parallel: { sessionsPerDevice } });
  await using one = await open(1);
  await using two = await open(2);
  const input = batchOf(rows);
  return {
    rows,
    ...((await compareRates(
      () => rateOf(one, input, rows, 2),
      () => rateOf(two, input, rows, 4),
    )) as object),
  };
}

/** What a size costs that has not run before, and what one does that is filled up to a known one. */
async function measureNewSizes(device: Device): Promise<unknown> {
  await using extractor = await createFeatureExtractor(model, ['avgpool'], { device });
  const times = async (rows: number): Promise<number[]> => {
    const input = batchOf(rows);
    const list: number[] = [];
    for (let i = 0; i < 3; i++) list.push(round(await msOf(() => extractor.run(input))));
    return list;
  };
  return {
    'first 32': await times(32),
    '31, filled up to 32 on a GPU': await times(31),
    '17, filled up to 32 on a GPU': await times(17),
    '40, new': await times(40),
    '33, filled up to 40 on a GPU': await times(33),
    '8, new': await times(8),
  };
}

/** Same computing, other bytes across the bus: a large output, and input as bytes instead of floats. */
async function measureTransfers(device: Device, rows: number): Promise<unknown> {
  await using small = await createFeatureExtractor(model, ['avgpool'], { device });
  await using large = await createFeatureExtractor(model, ['layer1', 'avgpool'], { device });
  await using bytes = await createFeatureExtractor(model, ['avgpool'], { device, input: 'image-uint8' });
  const input = batchOf(rows);
  // One row decides nothing: the layout of the pixels is the extractor's to tell.
  const dims = (bytes.inputs[0]!.dims ?? []).map((size, axis) => (axis === 0 ? rows : Number(size)));
  const pixels: Tensor<'uint8'> = { dtype: 'uint8', dims, data: new Uint8Array(input.data.length).fill(127) };
  const copyMs = median(
    await Promise.all(Array.from({ length: 5 }, () => msOf(async () => input.data.slice()))),
  );
  return {
    rows,
    inputMegabytes: input.data.byteLength / 1e6,
    copyOnHostMs: round(copyMs),
    'with layer1 / avgpool alone': await compareRates(
      () => rateOf(small, input, rows, 2),
      () => rateOf(large, input, rows, 2),
    ),
    'uint8 input / float32 input': await compareRates(
      () => rateOf(small, input, rows, 2),
      () => rateOf(bytes, pixels, rows, 2),
    ),
  };
}

/** The device that was asked for, else WebGPU; why, if neither. */
async function findDevice(wanted: string): Promise<Device | undefined> {
  for (const name of new Set([wanted, 'webgpu'])) {
    const device = name as Device;
    try {
      await (await createFeatureExtractor(model, ['avgpool'], { device })).close();
      return device;
    } catch (error) {
      problems[`device ${name}`] = String(error);
      console.log(`${name} cannot be used: ${String(error)}`);
    }
    if (wanted === 'cpu') break;
  }
  return undefined;
}

const device = await findDevice(values.device);
if (device !== undefined) {
  const list = (tapir as unknown as Record<string, unknown>)['listDevices'] as
    (() => Promise<unknown>) | undefined;
  if (list) await measure('devices', list);
  await measure('equalToCpu', () => compareWithCpu(device));
  if (values.only === undefined && typeof device === 'string' && device.startsWith('cuda'))
    await measure('equalToCpuWithoutTf32', () => compareWithoutTf32(device));
  await measure('sizes', () => measureSizes(device));
  const rows = (results['sizes'] as SizeRow[] | undefined)
    ?.toSorted((a, b) => b.perSecondTwoUnderWay - a.perSecondTwoUnderWay)
    .at(0)?.rows;
  const best = rows ?? 32;
  await measure('sessions', () => compareSessions(device, best));
  await measure('newSizes', () => measureNewSizes(device));
  // layer1 of 64 images are 205 MB.
  await measure('transfers', () => measureTransfers(device, Math.min(best, 64)));
  const options: more.MoreOptions = {
    device,
    model,
    side,
    rows: Math.min(best, 64),
    rounds: ROUNDS,
    batchOf,
    rateOf,
    compareRates,
  };
  await measure('gather', () => more.measureGather(options));
  await measure('stages', () => more.measureStages(options));
  await measure('training', () => more.measureTraining({ ...options, rows: isTiny ? 2 : 32 }));
  await measure('int8', () => more.measureInt8(options));
  await measure('plugins', () => more.measurePlugins(options));
  for (const nodes of [['avgpool'], ['layer1', 'avgpool']])
    for (const half of [false, true])
      await measure(`ways, ${nodes.join(' and ')}, ${half ? 'float16' : 'float32'}`, () =>
        measureWays({ device, model, side, nodes, half, rows: isTiny ? 2 : 64, rounds: ROUNDS, rateOf }),
      );
}

const report = {
  date: new Date().toISOString(),
  machine: {
    gpus: nvidiaSmi(),
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    node: process.versions.node,
  },
  asked: values.device,
  device: device ?? null,
  model: values.model,
  results,
  problems,
};
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(report, null, 2)}\n`);
if (device === undefined) process.exitCode = 3;
