/**
 * `npx tsx bench/copies.ts [--rounds N]`: what each copy of a batch costs, and whether the buffers and the slices of
 * src/onnx/tensor/copy.ts are worth it. The figures are in docs/decisions/008-copies.md.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import * as ort from 'onnxruntime-node';
import { modelBytes } from '../test/support/graphs.js';
import { format, interleave, spreadOf, type Spread } from './measure.js';
import { machineText } from './record.js';

console.log(machineText());
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '21' } } });
const rounds = Number(values.rounds);
const KIB = 1024;
const INPUT = 32 * 3 * 224 * 224;
const OUTPUT = 32 * 2048 * 7 * 7;
const input = Float32Array.from({ length: INPUT }, (_, i) => i);
const parts = [0, 1].map(() => new Float32Array(OUTPUT / 2).fill(1));

async function copyInSlices(
  sources: readonly Float32Array[],
  target: Float32Array,
  sliceBytes: number,
): Promise<number> {
  let longest = 0;
  let at = 0;
  const step = sliceBytes / Float32Array.BYTES_PER_ELEMENT;
  for (const source of sources) {
    for (let done = 0; done < source.length; done += step) {
      const started = performance.now();
      target.set(source.subarray(done, done + step), at + done);
      longest = Math.max(longest, performance.now() - started);
      await nextTurn();
    }
    at += source.length;
  }
  return longest;
}

/** To a thread and back, moved. */
function createEcho(): {
  readonly round: (buffer: ArrayBuffer) => Promise<ArrayBuffer>;
  readonly end: () => Promise<unknown>;
} {
  const code = `const { parentPort: p } = require('worker_threads'); p.on('message', (b) => p.postMessage(b, [b]));`;
  const worker = new Worker(code, { eval: true });
  return {
    round: (buffer) =>
      new Promise((resolve) => {
        worker.once('message', resolve);
        worker.postMessage(buffer, [buffer]);
      }),
    end: () => worker.terminate(),
  };
}

const echo = createEcho();
let moved = new ArrayBuffer(INPUT * 4);
const used = new Float32Array(INPUT).fill(1);
const joined = new Float32Array(OUTPUT).fill(1);
const slices = [64, 256, 1024, 2048, 4096].map((kib) => kib * KIB);
const longest = new Map<string, number[]>();
const noteLongest = (name: string, ms: number): void => {
  longest.set(name, [...(longest.get(name) ?? []), ms]);
};
// onnxruntime's part: a graph that only reads its input, one that gives 12.8 MB out.
const summing = await ort.InferenceSession.create(
  modelBytes({
    inputs: ['x'],
    outputs: ['y'],
    nodes: [{ op: 'ReduceSum', inputs: ['x'], outputs: ['y'] }],
  }),
);
const copying = await ort.InferenceSession.create(
  modelBytes({ inputs: ['x'], outputs: ['y'], nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }] }),
);

const steps: Record<string, () => unknown> = {
  'input: one copy, fresh buffer': () => new Float32Array(INPUT).set(input),
  'input: one copy, used buffer': () => used.set(input),
  ...Object.fromEntries(
    slices.flatMap((size) => {
      const label = `${size / KIB} KiB slices`;
      return [
        [
          `input: ${label}, fresh buffer`,
          async () =>
            noteLongest(`${label}, fresh`, await copyInSlices([input], new Float32Array(INPUT), size)),
        ],
        [
          `input: ${label}, used buffer`,
          async () => noteLongest(`${label}, used`, await copyInSlices([input], used, size)),
        ],
      ];
    }),
  ),
  'moving 19.3 MB to a thread and back': async () => {
    moved = await echo.round(moved);
  },
  'onnxruntime: reads 19.3 MB (a sum of it), gives one number': () =>
    summing.run({ x: new ort.Tensor('float32', input, [INPUT]) }),
  'onnxruntime: reads and gives 12.8 MB': () =>
    copying.run({ x: new ort.Tensor('float32', joined, [OUTPUT]) }),
  'output: 12.8 MB joined of two, 1 MiB slices, fresh buffer': () =>
    copyInSlices(parts, new Float32Array(OUTPUT), KIB * KIB),
  'output: 12.8 MB joined of two, 1 MiB slices, used buffer': () => copyInSlices(parts, joined, KIB * KIB),
};

const seconds = await interleave(rounds, steps);
const inMs = ({ median, min, max }: Spread): Spread => ({
  median: median * 1000,
  min: min * 1000,
  max: max * 1000,
});
console.log(
  `Node ${process.versions.node}; ms per batch of 32 × 3 × 224 × 224 float32; median [min–max] of ${rounds}\n`,
);
for (const [name, list] of Object.entries(seconds))
  console.log(`${name.padEnd(62)} ${format(inMs(spreadOf(list)))}`);
console.log('\nlongest single slice, ms');
for (const [name, list] of longest) console.log(`  ${name.padEnd(60)} ${format(spreadOf(list.slice(1)))}`);
await Promise.all([echo.end(), summing.release(), copying.release()]);
