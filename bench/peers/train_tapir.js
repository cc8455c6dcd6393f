/**
 * Training as peer_train.py does it, and Grad-CAM beside a forward run: node train_tapir.js CASE THREADS. A line on standard input is a
 * step; its answer is a line of JSON: { seconds, cpuSeconds, loss }. At the end of the input: { rssMb }, the peak.
 */
import { createInterface } from 'node:readline';
import { createFeatureExtractor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { createTrainer } from 'onnx-tapir/train';
import { createAttribution } from 'onnx-tapir/explain';

const [name, threads] = process.argv.slice(2);
const device = { type: 'cpu', id: 0, threads: Number(threads) };
const momentum = { kind: 'sgd', lr: 0.001, momentum: 0.9 };

const images = (rows, size) => ({
  dtype: 'float32',
  dims: [rows, 3, size, size],
  data: Float32Array.from({ length: rows * 3 * size * size }, (_, i) => Math.sin(i)),
});

/** A step of training. */
async function training(network, { rows, size, ...options }) {
  const model = await createModel(network, { seed: 0 });
  const trainer = await createTrainer(model, {
    loss: 'cross-entropy',
    optimizer: momentum,
    devices: [device],
    ...options,
  });
  const batch = { input: images(rows, size), target: Array.from({ length: rows }, (_, i) => i) };
  return () => trainer.step(batch);
}

const STEPS = {
  head: () => training('resnet50', { rows: 16, size: 224, parameters: 'fc' }),
  layer4: () => training('resnet50', { rows: 16, size: 224, parameters: ['layer4', 'fc'] }),
  whole: () => training('resnet18', { rows: 8, size: 64, batchNorm: 'batch' }),
  forward: async () => {
    const model = await createModel('resnet50', { seed: 0 });
    const extractor = await createFeatureExtractor(model, ['fc'], { device });
    const image = images(1, 224);
    return () => extractor.run(image);
  },
  'grad-cam': async () => {
    const model = await createModel('resnet50', { seed: 0 });
    const cam = await createAttribution(model, { method: 'grad-cam', layer: 'layer4', device });
    const image = images(1, 224);
    return () => cam.run(image);
  },
};

const step = await STEPS[name]();
for await (const _ of createInterface({ input: process.stdin })) {
  const [started, before] = [performance.now(), process.cpuUsage()];
  const { loss } = await step();
  const { user, system } = process.cpuUsage(before);
  const seconds = (performance.now() - started) / 1000;
  console.log(JSON.stringify({ seconds, cpuSeconds: (user + system) / 1e6, loss }));
}
console.log(JSON.stringify({ rssMb: process.resourceUsage().maxRSS / 1000 }));
process.exit();
