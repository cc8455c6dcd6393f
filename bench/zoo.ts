/**
 * `npx tsx bench/zoo.ts [--rounds N]`: `createModel` from weights that are in memory, per byte of weights: networks of segmentation, detection
 * and video against ResNet-50. The bar is 1.2 × its time per byte.
 */
import { parseArgs } from 'node:util';
import { createModel } from 'onnx-tapir/zoo';
import type { Tensor } from 'onnx-tapir';
import { interleave, ratios, Report, spreadOf } from './measure.js';
import { machineText } from './record.js';

console.log(machineText());
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } });
const NAMES = [
  'resnet50',
  'deeplabv3_resnet50',
  'fasterrcnn_resnet50_fpn_v2',
  'r3d_18',
  'mvit_v2_s',
] as const;

/** The weights of a network, and how many bytes they have. */
async function weightsOf(name: string): Promise<{ weights: Map<string, Tensor>; bytes: number }> {
  const weights = new Map<string, Tensor>();
  for (const parameter of (await createModel(name)).namedParameters())
    weights.set(parameter.name, await parameter.read());
  // What a checkpoint has beside the graph: without it, norms of a detector count as frozen.
  for (const key of [...weights.keys()].filter((one) => one.endsWith('.running_mean')))
    weights.set(key.replace('running_mean', 'num_batches_tracked'), {
      dtype: 'int64',
      dims: [],
      data: BigInt64Array.of(1n),
    });
  const bytes = [...weights.values()].reduce((sum, { data }) => sum + (data as Float32Array).byteLength, 0);
  return { weights, bytes };
}

const given = new Map<string, Awaited<ReturnType<typeof weightsOf>>>();
for (const name of NAMES) given.set(name, await weightsOf(name));
const seconds = await interleave(
  Number(values.rounds),
  Object.fromEntries(
    NAMES.map((name) => [name, () => createModel(name, { weights: given.get(name)!.weights })]),
  ) as Record<(typeof NAMES)[number], () => Promise<unknown>>,
);
const perByte = (name: (typeof NAMES)[number]): number[] =>
  seconds[name].map((one) => (one / given.get(name)!.bytes) * 1e9);
const report = new Report();
for (const name of NAMES) {
  report.add(`${name}: milliseconds per megabyte`, spreadOf(perByte(name)), null, true);
  const ratio = ratios(perByte(name), perByte('resnet50'));
  if (name !== 'resnet50')
    report.add(`${name}: time per byte, of ResNet-50’s`, ratio, '≤ 1.2', ratio.median <= 1.2);
}
process.exitCode = report.results.every(({ holds }) => holds) ? 0 : 1;
