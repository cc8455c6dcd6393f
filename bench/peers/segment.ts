/**
 * deeplabv3_resnet50 with the same weights and threads, here and in torch, in turn. The bar is 1.0 × torch's speed, and equal logits.
 *
 * `npx tsx bench/peers/segment.ts --python VENV/bin/python [--side 520] [--threads 2] [--rounds 7]`
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { ratios, Report, secondsOf } from '../measure.js';

const { values } = parseArgs({
  options: {
    python: { type: 'string', default: 'python3' },
    side: { type: 'string', default: '520' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '7' },
  },
});
const [side, threads, rounds] = [values.side, values.threads, values.rounds].map(Number) as [
  number,
  number,
  number,
];

const folder = mkdtempSync(join(tmpdir(), 'tapir-segment-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const script = fileURLToPath(new URL('segment_python.py', import.meta.url));
const python = spawn(values.python, [script, folder, String(side), String(threads)], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const lines = createInterface(python.stdout)[Symbol.asyncIterator]();

async function nextLine<Line>(): Promise<Line> {
  const { done, value } = await lines.next();
  if (done === true) throw new Error('Python failed; its message is above');
  return JSON.parse(value) as Line;
}

function floatsOf(name: string): Float32Array {
  const { buffer, byteOffset, byteLength } = readFileSync(join(folder, name));
  return new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
}

const versions = await nextLine<Record<string, string>>();
const model = await createModel('deeplabv3_resnet50', { weights: join(folder, 'weights.pth') });
await using extractor = await createFeatureExtractor(
  model,
  { out: 'out' },
  { device: { type: 'cpu', threads } },
);
const input = { dtype: 'float32', dims: [1, 3, side, side], data: floatsOf('input.f32') } as const;
const expected = floatsOf('output.f32');
const { out } = await extractor.run(input);
let [largest, least, most] = [0, Infinity, -Infinity];
for (const [i, value] of expected.entries()) {
  largest = Math.max(largest, Math.abs(value - out.data[i]!));
  [least, most] = [Math.min(least, value), Math.max(most, value)];
}

const [ours, theirs]: [number[], number[]] = [[], []];
for (let round = 0; round <= rounds; round++) {
  const mine = await secondsOf(() => extractor.run(input));
  python.stdin.write('run\n');
  const { seconds } = await nextLine<{ seconds: number }>();
  // The first round warms up.
  if (round === 0) continue;
  ours.push(mine);
  theirs.push(seconds);
}
python.stdin.end();

console.log(
  `torch ${versions['torch']}, torchvision ${versions['torchvision']}, ${threads} threads, ${side} × ${side}`,
);
const report = new Report();
const error = largest / (most - least);
report.add(
  'largest difference of the logits, of their range',
  { median: error, min: error, max: error },
  '≤ 0.0001',
  error <= 1e-4,
  7,
);
const speed = ratios(theirs, ours);
report.add('deeplabv3_resnet50, of torch’s speed', speed, '≥ 1.0', speed.median >= 1);
process.exitCode = report.results.every(({ holds }) => holds) ? 0 : 1;
