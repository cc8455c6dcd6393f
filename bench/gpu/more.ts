/** Further steps on a device: 8 bits, training, stages, and providers as plugins. */
import type * as tapir from 'onnx-tapir';
import { createFeatureExtractor, pruneModel, type Device, type Tensor } from 'onnx-tapir';
import { quantizeModel } from 'onnx-tapir/precision';
import { Pipeline } from 'onnx-tapir/stages';
import { createTrainer } from 'onnx-tapir/train';
import { median, msOf, round } from './ways.js';

export interface MoreOptions {
  readonly device: Device;
  readonly model: tapir.ModelSource;
  readonly side: number;
  readonly rows: number;
  readonly rounds: number;
  readonly batchOf: (rows: number) => Tensor<'float32'>;
  readonly rateOf: (
    runs: Pick<tapir.Extractor, 'run'>,
    input: Tensor,
    rows: number,
    atOnce: number,
  ) => Promise<number>;
  readonly compareRates: (a: () => Promise<number>, b: () => Promise<number>) => Promise<unknown>;
}

/** A picture of noise, as BMP. */
function noise(side: number, seed: number): Uint8Array {
  const bytes = Buffer.alloc(54 + 3 * side * side);
  bytes.write('BM');
  for (const [at, value] of [
    [2, bytes.length],
    [10, 54],
    [14, 40],
    [18, side],
    [22, side],
    [34, 3 * side * side],
  ])
    bytes.writeUInt32LE(value!, at);
  bytes.writeUInt16LE(1, 26);
  bytes.writeUInt16LE(24, 28);
  for (let i = 54; i < bytes.length; i++) bytes[i] = ((i + seed) * 2_654_435_761) >>> 13;
  return bytes;
}

/** A file in 8 bits with fixed scales (QDQ), which every provider reads, against the file in float32. */
export async function measureInt8(options: MoreOptions): Promise<unknown> {
  const { device, side, rows, batchOf, rateOf, compareRates } = options;
  const exact = await pruneModel(options.model, ['avgpool']);
  const photos = Array.from({ length: 8 }, (_, i) => noise(side, i));
  const { model } = await quantizeModel(exact, photos, {
    activations: 'static',
    transform: { resize: side, crop: side },
    minCosine: -1,
    seconds: 60,
  });
  await using whole = await createFeatureExtractor(exact, undefined, { device });
  await using lowered = await createFeatureExtractor(model, undefined, { device });
  const input = batchOf(rows);
  return {
    rows,
    'int8 / float32': await compareRates(
      () => rateOf(whole, input, rows, 2),
      () => rateOf(lowered, input, rows, 2),
    ),
  };
}

/** Steps of a trainer whose gradients are computed on the device: milliseconds of a step, and the loss. */
export async function measureTraining({
  device,
  model,
  batchOf,
  rows,
  rounds,
}: MoreOptions): Promise<unknown> {
  await using extractor = await createFeatureExtractor(model, { fc: 'logits' });
  await using trainer = await createTrainer(extractor, {
    loss: 'cross-entropy',
    optimizer: { kind: 'sgd', lr: 1e-3 },
    parameters: ['layer4', 'fc'],
    devices: [device],
  });
  const target = Array.from({ length: rows }, (_, row) => row % 10);
  const batch = { input: batchOf(rows), target };
  const losses: number[] = [];
  const step = async (): Promise<void> => void losses.push(round((await trainer.step(batch)).loss));
  const firstMs = round(await msOf(step));
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) times.push(await msOf(step));
  return { rows, firstMs, ms: round(median(times)), losses };
}

/** Two stages on one device against the whole model there: what handing tensors on by the host costs, and whether the numbers stay. */
export async function measureStages(options: MoreOptions): Promise<unknown> {
  const { device, model, rows, batchOf, rateOf, compareRates } = options;
  await using whole = await createFeatureExtractor(model, ['avgpool'], { device });
  await using stages = await Pipeline.create(model, ['avgpool'], {
    stages: [{ until: 'layer2', devices: [device] }, { devices: [device] }],
  });
  const input = batchOf(rows);
  const [one, other] = [await whole.run(input), await stages.run(input)].map(({ avgpool }) => avgpool!.data);
  return {
    rows,
    device: stages.device,
    'largest difference': Math.max(...one!.map((value, i) => Math.abs(Number(value) - Number(other![i])))),
    'two stages / whole': await compareRates(
      () => rateOf(whole, input, rows, 2),
      () => rateOf(stages, input, rows, 2),
    ),
  };
}

/** Two sessions that share the rows of each batch against one: the order of rows, and what gathering costs. */
export async function measureGather(options: MoreOptions): Promise<unknown> {
  const { device, model, rows, batchOf, rateOf, compareRates } = options;
  const open = (sessionsPerDevice: number) =>
    createFeatureExtractor(model, ['layer1', 'avgpool'], {
      devices: [device],
      parallel: { sessionsPerDevice, split: 'chunk' },
    });
  await using one = await open(1);
  await using two = await open(2);
  const input = batchOf(rows);
  const [expected, actual] = [await one.run(input), await two.run(input)];
  const largest = (name: 'layer1' | 'avgpool'): number =>
    expected[name].data.reduce(
      (most: number, value, i) => Math.max(most, Math.abs(Number(value) - Number(actual[name].data[i]))),
      0,
    );
  return {
    rows,
    'largest difference': { layer1: round(largest('layer1')), avgpool: round(largest('avgpool')) },
    'two sessions / one, rows split': await compareRates(
      () => rateOf(one, input, rows, 1),
      () => rateOf(two, input, rows, 1),
    ),
  };
}

/** What has no way here yet, in the words of the error, and the plugins that are installed. */
export async function measurePlugins(options: MoreOptions): Promise<unknown> {
  const { model, rows, batchOf, rateOf, device } = options;
  const input = batchOf(rows);
  const found: Record<string, unknown> = {};
  const tries: Readonly<Record<string, tapir.Options<tapir.FeatureExtractorOptions>>> = {
    'plugin:tensorrt-rtx': { device: 'plugin:tensorrt-rtx' },
    'plugin:webgpu': { device: 'plugin:webgpu' },
    'CUDA graphs': { device, session: { cuda: { enable_cuda_graph: '1' } } as never },
  };
  for (const [name, how] of Object.entries(tries))
    try {
      await using extractor = await createFeatureExtractor(model, ['avgpool'], how);
      const firstMs = round(await msOf(() => extractor.run(input)));
      found[name] = { rows, firstMs, perSecond: round(await rateOf(extractor, input, rows, 2)) };
    } catch (error) {
      const { code, message } = error as tapir.TapirError;
      found[name] = { refused: `${code}: ${message}` };
    }
  return found;
}
