/**
 * `npx tsx bench/sinks.ts [--rounds N] [--json FILE]`, part of `npm run bench`: how fast each format of features is written, against
 * the same bytes written raw to the same place, synced too. Every measurement is a process of its own, so that its peak memory is its own.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { AtomicFile } from '../src/base/atomic-file.js';
import { createFeatureWriter, type FeatureFormat } from '../src/datasets/formats/feature-files.js';
import { ratios, Report, spreadOf } from './measure.js';
import { machineText } from './record.js';

const ROWS = 20_000;
const WIDTH = 2048;
const BATCH = 32;
/** Rows a second that a format is to reach; null where it is only to be read beside the others. */
const BARS = { raw: null, npy: 50_000, arrow: 20_000, parquet: 8_000 } as const;
type Sink = keyof typeof BARS;
const SINKS = Object.keys(BARS) as Sink[];

interface Taken {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly megabytes: number;
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    json: { type: 'string' },
    /** For the processes started here: what to write, and where. */
    sink: { type: 'string' },
    out: { type: 'string' },
  },
});

/** Batches as a model would give them: each in memory of its own. */
function* batches(): Generator<{ readonly firstRow: number; readonly data: Float32Array }> {
  const data = Float32Array.from({ length: BATCH * WIDTH }, (_, i) => Math.abs(Math.sin(i)) * 3);
  for (let firstRow = 0; firstRow < ROWS; firstRow += BATCH) yield { firstRow, data: data.slice() };
}

async function writeRaw(path: string): Promise<void> {
  const file = await AtomicFile.create(path);
  for (const { data } of batches()) await file.append(new Uint8Array(data.buffer));
  await file.finish();
}

async function writeFeatures(format: FeatureFormat, path: string): Promise<void> {
  const writer = await createFeatureWriter(format, path, 'embedding', 'float32', [WIDTH]);
  for (const { firstRow, data } of batches()) {
    const paths = Array.from({ length: BATCH }, (_, i) => `photos/2026/image-${firstRow + i}.jpg`);
    await writer.append({ tensor: { dtype: 'float32', dims: [BATCH, WIDTH], data }, firstRow, paths });
  }
  await writer.finish();
}

/** Writes here and prints what it took. */
async function measureHere(sink: Sink, path: string): Promise<void> {
  // The packages of a format are loaded before the clock starts.
  if (sink !== 'raw')
    await (await createFeatureWriter(sink, `${path}.warm`, 'embedding', 'float32', [WIDTH])).discard();
  const started = performance.now();
  const cpu = process.cpuUsage();
  await (sink === 'raw' ? writeRaw(path) : writeFeatures(sink, path));
  const { user, system } = process.cpuUsage(cpu);
  const taken: Taken = {
    seconds: (performance.now() - started) / 1000,
    cpuSeconds: (user + system) / 1e6,
    megabytes: process.resourceUsage().maxRSS / 1000,
  };
  console.log(JSON.stringify(taken));
}

function measure(sink: Sink, folder: string): Taken & { readonly bytes: number } {
  const path = join(folder, `features.${sink}`);
  const args = [...process.execArgv, fileURLToPath(import.meta.url), '--sink', sink, '--out', path];
  const taken = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as Taken;
  const bytes = statSync(path).size;
  rmSync(path);
  return { ...taken, bytes };
}

async function bench(rounds: number): Promise<void> {
  console.log(
    `${machineText()}; ${ROWS} rows of ${WIDTH} float32 in batches of ${BATCH}; median [min–max] of ${rounds} interleaved rounds\n`,
  );
  const folder = mkdtempSync(join(tmpdir(), 'tapir-sinks-'));
  const taken = Object.fromEntries(SINKS.map((sink) => [sink, [] as ReturnType<typeof measure>[]]));
  try {
    for (let round = 0; round < rounds; round++)
      for (const sink of SINKS) taken[sink]!.push(measure(sink, folder));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const report = new Report();
  const raw = taken['raw']!.map(({ seconds }) => seconds);
  for (const sink of SINKS) {
    const rows = spreadOf(taken[sink]!.map(({ seconds }) => ROWS / seconds));
    const bar = BARS[sink];
    report.add(
      `${sink}: rows/s`,
      rows,
      bar === null ? null : `≥ ${bar}`,
      bar === null || rows.median >= bar,
      0,
    );
    report.add(`  CPU seconds`, spreadOf(taken[sink]!.map(({ cpuSeconds }) => cpuSeconds)), null, true, 2);
    report.add(`  peak memory, MB`, spreadOf(taken[sink]!.map(({ megabytes }) => megabytes)), null, true, 0);
    report.add(
      `  bytes / raw`,
      spreadOf(taken[sink]!.map(({ bytes }) => bytes / (ROWS * WIDTH * 4))),
      null,
      true,
    );
    const seconds = taken[sink]!.map((one) => one.seconds);
    if (sink !== 'raw') report.add(`  speed / raw write of the values`, ratios(raw, seconds), null, true);
  }
  if (values.json === undefined) return;
  mkdirSync(dirname(values.json), { recursive: true });
  const content = { date: new Date().toISOString(), rounds, results: report.results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}

if (values.sink === undefined) await bench(Number(values.rounds));
else await measureHere(values.sink as Sink, values.out!);
