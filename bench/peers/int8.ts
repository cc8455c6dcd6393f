/**
 * `npx tsx bench/peers/int8.ts --python PYTHON --photos FOLDER --name NAME --model FILE --node NODE [--pool HOW] [--transform JSON]
 * [--activations KIND] [--sample N] [--seconds N] [--min-cosine X] [--min-neighbours X] [--transformer] [--json FILE]`: a model in 8 bits by onnx-tapir, NNCF and
 * onnxruntime.quantization, on the same photos, judged on the same others. FILE may be `create:NAME`, a seeded network.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, createTransform, loadImage, openModel, pruneModel } from 'onnx-tapir';
import type { Pool } from '../../src/run/model/prune/rewrite-options.js';
import { quantizeModel, type QuantizeOptions, type StaticReport } from 'onnx-tapir/precision';
import { createModel } from 'onnx-tapir/zoo';
import { SOURCE_DEFAULTS } from '../../src/photos/feeds/items/source-options.js';
import { openSource } from '../../src/datasets/sources/open-source.js';
import { sampleItems } from '../../src/datasets/sources/sampling/sample-items.js';
import { readNpy } from '../../test/support/npy.js';
import { saveNpy } from './npy.js';

const { values } = parseArgs({
  options: {
    python: { type: 'string', default: 'python3' },
    photos: { type: 'string' },
    name: { type: 'string' },
    model: { type: 'string' },
    node: { type: 'string' },
    pool: { type: 'string', default: 'none' },
    transform: { type: 'string', default: '"ImageNet1K_V1"' },
    activations: { type: 'string', default: 'auto' },
    sample: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '300' },
    'min-cosine': { type: 'string', default: '0.99' },
    'min-neighbours': { type: 'string', default: '0.98' },
    transformer: { type: 'boolean', default: false },
    json: { type: 'string' },
    keep: { type: 'string' },
  },
});
const { photos, name, model: file, node } = values;
if (photos === undefined || name === undefined || file === undefined || node === undefined)
  throw new Error('give --photos, --name, --model and --node');
const scratch = values.keep ?? mkdtempSync(join(tmpdir(), 'tapir-int8-peers-'));
const transform = createTransform(JSON.parse(values.transform) as 'ImageNet1K_V1');
/** Photos of a run: the first of every two runs give ranges, and the others judge. */
const ROWS = 4;

// The photos that can be read, in the order in which quantizeModel sees them.
const { items } = await sampleItems(openSource(photos, SOURCE_DEFAULTS, undefined), Number(values.sample));
const paths: string[] = [];
const pixels: Float32Array[] = [];
let dims: readonly number[] = [];
for (const { path } of items) {
  const image = await loadImage(join(photos, path!), transform).catch(() => undefined);
  if (!image) continue;
  const tensor = image.toTensor();
  paths.push(join(photos, path!));
  pixels.push(tensor.data as Float32Array);
  dims = tensor.dims.slice(-3);
}
const rowsOf = (isHeldBack: boolean): Float32Array[] =>
  pixels.filter((_, row) => (Math.floor(row / ROWS) % 2 === 1) === isHeldBack);
const [exact, int8] = [join(scratch, 'float32.onnx'), join(scratch, 'int8.onnx')];
const source = file.startsWith('create:')
  ? await createModel(file.slice('create:'.length), { seed: 1 })
  : await openModel(file);
const pruned = await pruneModel(source, { [node]: 'embedding' }, { pool: values.pool as Pool });
await pruned.save(exact, { overwrite: true });
for (const [path, isHeldBack] of [
  ['calibration.npy', false],
  ['held-back.npy', true],
] as const) {
  const rows = rowsOf(isHeldBack);
  saveNpy(join(scratch, path), [rows.length, ...dims], rows);
}

const started = performance.now();
const { activations } = values as Pick<QuantizeOptions, 'activations'>;
const found: Record<string, unknown>[] = [];
const options = {
  transform,
  activations,
  sample: paths.length,
  seconds: Number(values.seconds),
  minCosine: Number(values['min-cosine']),
  minNeighbours: Number(values['min-neighbours']),
};
try {
  const { model, report } = await quantizeModel(exact, paths, options);
  await model.save(int8, { overwrite: true });
  const { measured, nodes, kept, bytesBefore, bytesAfter, calibration, speeds } = report as StaticReport;
  const seconds = (performance.now() - started) / 1000;
  const facts = { name: 'tapir quantize', ...measured![0]!, nodes, kept: kept.length };
  found.push({ ...facts, size: bytesAfter / bytesBefore, seconds, calibration, speeds });
} catch (error) {
  found.push({ name: 'tapir quantize', error: (error as Error).message });
}
console.log(JSON.stringify(found[0]));
const script = fileURLToPath(new URL('int8_peers.py', import.meta.url));
const inputs = ['calibration.npy', 'held-back.npy'].map((path) => join(scratch, path));
const flags = values.transformer ? ['--transformer'] : [];
const ended = spawnSync(values.python, [script, exact, int8, ...inputs, ...flags], {
  encoding: 'utf8',
  maxBuffer: 1e8,
});
for (const line of ended.stdout.split('\n')) if (line.startsWith('{')) found.push(JSON.parse(line));
if (ended.status !== 0) console.error(ended.stderr.slice(-2000));
if (existsSync(int8))
  for (const engine of ['onnxruntime', 'openvino'] as const) {
    await using extractor = await createFeatureExtractor(int8, ['embedding'], { engine });
    const there = readNpy(join(scratch, `python-${engine}.npy`)).data as Float32Array;
    let largest = 0;
    const held = rowsOf(true);
    for (let row = 0; row < held.length; row += ROWS) {
      const batch = held.slice(row, row + ROWS);
      const data = new Float32Array(batch.length * batch[0]!.length);
      for (const [k, one] of batch.entries()) data.set(one, k * one.length);
      const { embedding } = await extractor.run({ dtype: 'float32', dims: [batch.length, ...dims], data });
      const own = embedding!.data as Float32Array;
      const from = (row * there.length) / held.length;
      for (const [i, x] of own.entries()) largest = Math.max(largest, Math.abs(x - there[from + i]!));
    }
    const magnitude = there.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    found.push({ name: `Python ${engine} and here`, largestDifference: largest, magnitude });
  }
for (const one of found) console.log(JSON.stringify(one));
if (values.json !== undefined) {
  const before = existsSync(values.json) ? (JSON.parse(readFileSync(values.json, 'utf8')) as object[]) : [];
  const record = { network: name, photos: { ranges: rowsOf(false).length, heldBack: rowsOf(true).length } };
  writeFileSync(values.json, `${JSON.stringify([...before, { ...record, found }], null, 2)}\n`);
}
if (values.keep === undefined) rmSync(scratch, { recursive: true });
