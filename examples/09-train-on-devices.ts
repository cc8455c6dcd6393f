/**
 * Trains a feature extractor on several devices: DataParallel around the extractor, or the trainer's own devices; both take the same steps.
 * Run: npx tsx examples/09-train-on-devices.ts [MODEL]
 */
import { createFeatureExtractor, DataParallel } from 'onnx-tapir';
import { createTrainer } from 'onnx-tapir/train';

const model = process.argv[2] ?? 'models/resnet50-untrained.onnx';
// Lanes on the CPU; on GPUs: ['cuda:0', 'cuda:1'], or 'all'.
const devices = ['cpu:0', 'cpu:1'] as const;

const rows = 5;
const dims = [rows, 3, 224, 224];
const data = Float32Array.from({ length: rows * 3 * 224 * 224 }, (_, i) => Math.sin(i));
const batch = { input: { dtype: 'float32', dims, data }, target: [0, 1, 2, 3, 4] } as const;
const options = {
  loss: 'cross-entropy',
  optimizer: { kind: 'adam', lr: 1e-3 },
  parameters: ['layer4', 'fc'],
} as const;

await using extractor = await createFeatureExtractor(model, { fc: 'logits' });
await using parallel = await DataParallel.create(extractor, { devices });
await using first = await createTrainer(parallel, options);
await using second = await createTrainer(extractor, { ...options, devices });

const before = (await first.evaluate(batch)).loss;
for (let step = 0; step < 3; step++) {
  const [a, b] = [await first.step(batch), await second.step(batch)];
  console.log(
    `step ${a.step}: loss ${a.loss.toFixed(4)}, ${a.loss === b.loss ? 'the same' : 'another one'} in the other order`,
  );
}
const { loss, accuracy } = await first.evaluate(batch);
console.log(
  `${loss < before ? 'learned' : 'did not learn'}: loss ${before.toFixed(4)} → ${loss.toFixed(4)}, accuracy ${accuracy}`,
);

// The trained model as an extractor, on the same devices.
const tuned = await createFeatureExtractor(
  await first.model(),
  { avgpool: 'pooled' },
  { devices: undefined },
);
await using trained = await DataParallel.create(tuned, { devices });
console.log('features', (await trained.run(batch.input)).pooled.dims); // features [5, 2048, 1, 1]
await tuned.close();
