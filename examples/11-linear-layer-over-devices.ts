/**
 * 30 rows of 5 features over three devices, 10 on each, through a linear layer: the loss and the weights are those of one device.
 * Run: npx tsx examples/11-linear-layer-over-devices.ts
 */
import { createFeatureExtractor, DataParallel } from 'onnx-tapir';
import { createTrainer } from 'onnx-tapir/train';
import { network } from './networks/layers.js';

const [ROWS, FEATURES, OUT] = [30, 5, 2];
const fc = { op: 'Gemm', name: 'fc', weight: [OUT, FEATURES], attributes: { transB: 1 } };
const model = network([FEATURES], [fc], OUT);
const tensor = (columns: number, seed: number) =>
  ({
    dtype: 'float32',
    dims: [ROWS, columns],
    data: Float32Array.from({ length: ROWS * columns }, (_, i) => Math.sin(seed + i * 12.9898)),
  }) as const;
const batch = { input: tensor(FEATURES, 0), target: tensor(OUT, 1) };

const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;
await using extractor = await createFeatureExtractor(model, ['y']);
await using parallel = await DataParallel.create(extractor, { devices });
for (const { device, rows } of parallel.rowsPerDevice(ROWS))
  console.log(`${device}: input [${rows}, ${FEATURES}]`);
console.log('output', (await parallel.run(batch.input)).y!.dims); // output [30, 2]

const options = { loss: 'mse', optimizer: { kind: 'sgd', lr: 0.1 } } as const;
await using several = await createTrainer(model, { ...options, devices });
await using one = await createTrainer(model, options);
for (let step = 0; step < 20; step++) {
  const [a, b] = [await several.step(batch), await one.step(batch)];
  if (Math.abs(a.loss / b.loss - 1) > 1e-6) throw new Error(`three devices: ${a.loss}, one: ${b.loss}`);
  if (step % 5 === 0) console.log(`step ${a.step}: loss ${a.loss.toFixed(6)} on three devices and on one`);
}
