/**
 * `npx tsx bench/embed.ts [--rounds N] [--seconds S] [--only openvino] [--json FILE]`, part of `npm run bench`: photos to vectors,
 * against what decoding alone and the model alone reach on the same cores, and what memory it takes. Each part is a process of its
 * own. OpenVINO is measured, too, if its libraries are found (`OPENVINO_LIBS`, or `tapir engines install openvino`).
 */
import { spawn } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildResNet } from '../models/resnet.js';
import type { EmbeddingReport } from '../src/cli/measure/measure-embedding.js';
import { Report, spreadOf, watchOthers, type Spread } from './measure.js';
import { makePhotos } from './peers/photos.js';
import { endedChildrenCpuS } from './peers/processes.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    only: { type: 'string' },
    json: { type: 'string' },
  },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const resnet = join(root, 'models/resnet50-untrained.onnx');
const work = mkdtempSync(join(tmpdir(), 'tapir-bench-embed-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));

const report = new Report();
const notes: string[] = [];

function note(text: string): void {
  notes.push(text);
  console.log(`  ${text}`);
}

/** Runs a program of this project; returns what it printed. */
function run(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve(text) : reject(new Error(`${args.join(' ')}: exit code ${code}`)),
    );
  });
}

/** What runs the model, and its arithmetic. */
interface Engine {
  readonly engine: 'onnxruntime' | 'openvino';
  readonly precision: 'float32' | 'bfloat16';
}
const ONNXRUNTIME: Engine = { engine: 'onnxruntime', precision: 'float32' };

/** Each round runs in a process of its own, so that no round is measured in the memory of another. */
async function benchRound(
  model: string,
  photos: string,
  batch: number,
  { engine, precision }: Engine,
): Promise<EmbeddingReport> {
  const size = ['--batch', String(batch), '--set', `seconds=${values.seconds}`];
  const on = ['--engine', engine, '--precision', precision];
  const flags = ['--model', model, '--return', 'avgpool', ...size, ...on];
  const printed = await run([
    'dist/lib/bin.cjs',
    'bench',
    'embed',
    photos,
    ...flags,
    '--rounds',
    '1',
    '--json',
  ]);
  return JSON.parse(printed) as EmbeddingReport;
}

async function benchEndToEnd(
  name: string,
  model: string,
  photos: string,
  batch: number,
  on = ONNXRUNTIME,
): Promise<void> {
  const rounds: EmbeddingReport[] = [];
  for (let i = 0; i < Number(values.rounds); i++) rounds.push(await benchRound(model, photos, batch, on));
  const spread = (pick: (one: EmbeddingReport) => number): Spread => spreadOf(rounds.map(pick));
  const ofLimit = spread((one) => one.ofLimit);
  report.add(
    `${name}: photos → vectors / (1/(1/decode + 1/model))`,
    ofLimit,
    '>= 0.90',
    ofLimit.median >= 0.9,
  );
  const cpu = spread((one) => one.cpuOfParts);
  report.add(`${name}: CPU time / (decode + model)`, cpu, '<= 1.10', cpu.median <= 1.1);
  const main = spread((one) => one.busy.main);
  report.add(`${name}: main thread busy, share`, main, '<= 0.15', main.median <= 0.15);
  const rate = (pick: (one: EmbeddingReport) => number): string => spread(pick).median.toFixed(1);
  const ms = (pick: (one: EmbeddingReport) => number): string => spread(pick).median.toFixed(2);
  note(
    `images/s: decode ${rate((one) => one.decode.imagesPerSecond)} (one thread ${rate((one) => one.decodePerThread.imagesPerSecond)}), model ${rate((one) => one.model.imagesPerSecond)}, end to end ${rate((one) => one.endToEnd.imagesPerSecond)}`,
  );
  note(
    `a thread’s ms per image: read and decode ${ms((one) => one.spent.decode)}, resize ${ms((one) => one.spent.resample)}, feed ${ms((one) => one.spent.feed)}, model ${ms((one) => one.spent.model)}`,
  );
}

/** Peak resident memory, in MB, of a process that embeds a folder of `images` photos: links, because a dataset embeds each path once. */
async function peakOf(
  model: string,
  photos: string,
  images: number,
  on: Engine = ONNXRUNTIME,
): Promise<number> {
  const folder = join(work, `links-${images}`);
  if (!existsSync(folder)) {
    mkdirSync(folder);
    const names = readdirSync(photos);
    for (let i = 0; i < images; i++)
      linkSync(join(photos, names[i % names.length]!), join(folder, `${i}.jpg`));
  }
  const code = `
    import { createFeatureExtractor, embedFolder } from 'onnx-tapir';
    const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { avgpool: 'v' }, ${JSON.stringify(on)});
    await embedFolder(extractor, ${JSON.stringify(folder)}, { out: ${JSON.stringify(join(work, 'out'))}, overwrite: true, batch: 8 });
    await extractor.close();
    console.log(process.resourceUsage().maxRSS / 1000);`;
  return Number(await run(['--input-type=module', '--eval', code]));
}

async function benchMemory(small: string, photos: string): Promise<void> {
  const large = await peakOf(resnet, photos, 100);
  report.add(
    'ResNet-50, batch 8, one session: peak resident memory, MB',
    spreadOf([large]),
    '<= 500',
    large <= 500,
  );
  const ratios: number[] = [];
  for (let i = 0; i < 3; i++) {
    const few = await peakOf(small, photos, 1000);
    ratios.push((await peakOf(small, photos, 10_000)) / few);
  }
  const growth = spreadOf(ratios);
  report.add('peak resident memory, 10,000 images / 1,000', growth, '<= 1.05', growth.median <= 1.05);
}

/** Why an engine cannot run here; empty if it can. */
async function whyNot(on: Engine): Promise<string> {
  const code = `
    import { createFeatureExtractor } from 'onnx-tapir';
    try {
      await (await createFeatureExtractor(${JSON.stringify(small)}, ['avgpool'], ${JSON.stringify(on)})).close();
    } catch (error) {
      console.log(error.message);
    }`;
  return (await run(['--input-type=module', '--eval', code])).trim();
}

async function benchOpenvino(precision: Engine['precision'], photos: string): Promise<void> {
  const on: Engine = { engine: 'openvino', precision };
  const name = `ResNet-50, OpenVINO ${precision}`;
  const reason = await whyNot(on);
  if (reason !== '') return note(`SKIPPED ${name}: ${reason}`);
  await benchEndToEnd(name, resnet, photos, 8, on);
  const peak = await peakOf(resnet, photos, 100, on);
  const what = `${name}, batch 8, one session: peak resident memory, MB`;
  report.add(what, spreadOf([peak]), '<= 700', peak <= 700);
}

const othersSince = watchOthers();
const photos = join(work, 'photos');
await makePhotos(photos, 64);
const small = join(work, 'small.onnx');
writeFileSync(small, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
console.log(
  `${machineText()}; ${readdirSync(photos).length} photos of about 500×375; median [min–max] of ${values.rounds} rounds\n`,
);
if (values.only !== 'openvino') {
  await benchEndToEnd('ResNet-50', resnet, photos, 8);
  // Each batch is a message to the main thread and one back; a model that is done with one in 20 ms is given larger ones.
  await benchEndToEnd('small model, batches of 32', small, photos, 32);
}
await benchOpenvino('float32', photos);
await benchOpenvino('bfloat16', photos);
if (values.only !== 'openvino') await benchMemory(small, photos);

const othersShare = othersSince(1000 * (endedChildrenCpuS() ?? 0));
console.log(`\nother processes used ${(100 * othersShare).toFixed(0)} % of the cores meanwhile`);
if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  writeFileSync(
    values.json,
    `${JSON.stringify({ machine: describeMachine(), othersShare, results: report.results, notes }, null, 2)}\n`,
  );
}
