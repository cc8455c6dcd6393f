/**
 * `npx tsx bench/dedupe.ts [--json FILE]`: time and peak memory of `findDuplicates` on 10,000 and 100,000 vectors of 768 numbers, of
 * which each hundredth is a planted copy. Every measurement is a process of its own, so that its peak memory is its own. It fails if
 * a planted copy is missing or an unplanted one is found. It needs `npm run build`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Dataset } from 'onnx-tapir';
import { findDuplicates } from 'onnx-tapir/features';
import { describeMachine, machineText } from './record.js';

const ELEMENTS = 768;
const ROW_COUNTS = [10_000, 100_000] as const;
const COPY_EVERY = 100;

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    /** For the processes started here. */
    rows: { type: 'string' },
  },
});

/** The row that a planted copy repeats; null for a row that is no copy. */
function sourceOf(row: number): number | null {
  return row % COPY_EVERY === COPY_EVERY - 1 ? Math.floor(row / 2 / COPY_EVERY) * COPY_EVERY : null;
}

/** Fills a row: the same numbers for the same row on every call, so that no row needs to be kept. */
function fillRow(into: Float32Array, row: number): void {
  const source = sourceOf(row);
  let state = Math.imul((source ?? row) + 1, 0x9e3779b1);
  for (let i = 0; i < into.length; i++) {
    state = Math.imul(state ^ (state >>> 15), 0x85ebca6b) + 0x6d2b79f5;
    into[i] = (state | 0) / 2 ** 31;
  }
  if (source !== null) for (let i = 0; i < into.length; i += 8) into[i]! *= 0.9;
}

/** A dataset that is computed whenever it is read. */
function createDataset(count: number): Dataset {
  const manifest = {
    features: { embedding: { dtype: 'float32', dims: [ELEMENTS] } },
    shards: [{ firstRow: 0, rows: count }],
  };
  const image = {
    status: 'ok',
    errorCode: null,
    errorMessage: null,
    stamp: null,
    crop: null,
    tile: null,
    clipStart: null,
  } as const;
  return {
    folder: 'memory',
    manifest: manifest as unknown as Dataset['manifest'],
    async *rows() {
      for (let row = 0; row < count; row++) yield { ...image, path: `${row}.jpg`, row, width: 1, height: 1 };
    },
    vectors: () => {
      throw new Error('nothing here asks for them');
    },
    async *blocks(_key, { rowsPerBlock = 1024 } = {}) {
      for (let firstRow = 0; firstRow < count; firstRow += rowsPerBlock) {
        const rows = Math.min(rowsPerBlock, count - firstRow);
        const data = new Float32Array(rows * ELEMENTS);
        for (let i = 0; i < rows; i++) fillRow(data.subarray(i * ELEMENTS, (i + 1) * ELEMENTS), firstRow + i);
        yield { firstRow, rows, dims: [ELEMENTS], data };
      }
    },
  };
}

interface Taken {
  readonly rows: number;
  readonly seconds: number;
  readonly gigaflops: number;
  readonly peakMegabytes: number;
  readonly planted: number;
  readonly missing: number;
  readonly invented: number;
}

async function measureHere(rows: number): Promise<Taken> {
  const started = performance.now();
  const { groups } = await findDuplicates(createDataset(rows));
  const seconds = (performance.now() - started) / 1000;
  const members = new Map(
    groups.flatMap(({ best, copies }, group) => [best, ...copies].map(({ row }) => [row, group] as const)),
  );
  const expected = new Set<number>();
  let planted = 0;
  let missing = 0;
  for (let row = 0; row < rows; row++) {
    const source = sourceOf(row);
    if (source === null) continue;
    planted++;
    expected.add(row).add(source);
    if (!members.has(row) || members.get(row) !== members.get(source)) missing++;
  }
  const invented = [...members.keys()].filter((row) => !expected.has(row)).length;
  const gigaflops = (rows * rows * ELEMENTS) / seconds / 1e9;
  const peakMegabytes = process.resourceUsage().maxRSS / 1000;
  return { rows, seconds, gigaflops, peakMegabytes, planted, missing, invented };
}

function bench(): void {
  const results = ROW_COUNTS.map((rows) => {
    const args = ['--import', 'tsx', fileURLToPath(import.meta.url), '--rows', String(rows)];
    const taken = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as Taken;
    console.log(JSON.stringify(taken));
    return taken;
  });
  if (results.some(({ missing, invented }) => missing + invented > 0)) process.exitCode = 1;
  if (values.json === undefined) return;
  mkdirSync(dirname(values.json), { recursive: true });
  console.log(machineText());
  const content = { date: new Date().toISOString(), machine: describeMachine(), results };
  writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
}

if (values.rows === undefined) bench();
else console.log(JSON.stringify(await measureHere(Number(values.rows))));
