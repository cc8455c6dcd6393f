/**
 * How threads of ONNX Runtime wait, side by side: `npm run build && npx tsx bench/spinning.ts [--rounds N] [--json FILE]`. Each way runs a
 * burst of batches and rests, in turn. CPU time includes the rest, in which threads may still look for work.
 */
import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, type FeatureExtractor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { format, spreadOf } from './measure.js';
import { describeMachine, machineText } from './record.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '11' }, json: { type: 'string' } },
});
const rounds = Number(values.rounds);

/** Entries of ONNX Runtime. */
const WAYS = {
  'spin (ONNX Runtime)': { session: { intra_op: { allow_spinning: '1' }, force_spinning_stop: '0' } },
  'spin within runs': { session: { intra_op: { allow_spinning: '1' }, force_spinning_stop: '1' } },
  sleep: { session: { intra_op: { allow_spinning: '0' } } },
} as const;
type Way = keyof typeof WAYS;
const ways = Object.keys(WAYS) as Way[];

/** Network, rows of a batch, batches of a burst. */
const CASES = [
  ['mobilenet_v3_small', 1, 60],
  ['mobilenet_v3_small', 8, 15],
  ['resnet18', 1, 10],
  ['resnet50', 8, 1],
  ['vit_b_16', 1, 2],
] as const;
const REST_MS = 100;

const results: object[] = [];
for (const [name, batch, burst] of CASES) {
  const model = await createModel(name, { seed: 1 });
  const request = [model.outputs[0]!.name];
  const extractors = new Map<Way, FeatureExtractor>();
  for (const way of ways)
    extractors.set(way, await createFeatureExtractor(model, request, { session: { extra: WAYS[way] } }));
  const dims = [batch, 3, 224, 224];
  const data = Float32Array.from({ length: batch * 3 * 224 * 224 }, (_, i) => Math.sin(i));
  const times = new Map(ways.map((way) => [way, { ms: [] as number[], cpuMs: [] as number[] }]));
  for (let round = -1; round < rounds; round++)
    for (const i of ways.keys()) {
      const way = ways[(i + round + 1) % ways.length]!;
      const cpu = process.cpuUsage();
      const began = performance.now();
      for (let run = 0; run < burst; run++) await extractors.get(way)!.run({ dtype: 'float32', dims, data });
      const ms = performance.now() - began;
      await setTimeout(REST_MS);
      const { user, system } = process.cpuUsage(cpu);
      if (round < 0) continue;
      times.get(way)!.ms.push(ms / burst);
      times.get(way)!.cpuMs.push((user + system) / 1000 / burst);
    }
  const base = times.get(ways[0]!)!;
  for (const way of ways) {
    const { ms, cpuMs } = times.get(way)!;
    const ratio = spreadOf(ms.map((value, i) => value / base.ms[i]!));
    const cpuRatio = spreadOf(cpuMs.map((value, i) => value / base.cpuMs[i]!));
    const medians = { ms: spreadOf(ms).median, cpuMs: spreadOf(cpuMs).median };
    console.log(
      `${name}, batch ${batch}, ${way}: ${medians.ms.toFixed(2)} ms, CPU ${medians.cpuMs.toFixed(2)} ms; to the first: time ${format(ratio)}, CPU time ${format(cpuRatio)}`,
    );
    results.push({ name, batch, way, ...medians, ratio, cpuRatio });
  }
  for (const one of extractors.values()) await one.close();
}
if (values.json !== undefined) {
  console.log(machineText());
  const machine = describeMachine();
  writeFileSync(values.json, `${JSON.stringify({ machine, rounds, results }, null, 2)}\n`);
}
