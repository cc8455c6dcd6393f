/** Photos as the input of everything that runs a model: the bits of their tensors. */
import { collateImages, createTransform, loadImage, type RunInput } from 'onnx-tapir';
import { createAttribution } from 'onnx-tapir/explain';
import { createEarlyExit, Pipeline } from 'onnx-tapir/stages';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { projectPath } from '../support/fixtures.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
const transform = createTransform({ resize: 72, crop: 64 });
const photos = await Promise.all(
  ['sea/sea-0.jpg', 'city/city-0.jpg'].map((name) =>
    loadImage(projectPath(`examples/photos/${name}`), transform),
  ),
);
const [photo] = photos;
const batch = collateImages(photos);
const [both] = Object.values(batch);
const inputs: [string, RunInput, RunInput][] = [
  ['one photo', photo!, photo!.toTensor()],
  ['photos together', batch, { ...both! }],
];

describe.each(inputs)('%s', (_, given, tensor) => {
  it('leave at exits', async () => {
    const exits = [{ node: 'fc', until: { confidence: 1 } }];
    await using early = await createEarlyExit(model, { fc: 'logits' }, { exits });
    expect(await early.run(given)).toEqual(await early.run(tensor));
  });

  it('are explained', async () => {
    await using cam = await createAttribution(model, { method: 'grad-cam', layer: 'layer4' });
    expect(await cam.run(given)).toEqual(await cam.run(tensor));
  });

  it('pass through stages', async () => {
    await using pipeline = await Pipeline.create(model, ['fc'], { devices: ['cpu:0', 'cpu:1'] });
    expect(await pipeline.run(given)).toEqual(await pipeline.run(tensor));
  });

  it('are learned from', async () => {
    const rows = given === photo ? 1 : 2;
    const target = { dims: [rows], data: new Int32Array(rows) };
    await using trainer = await createTrainer(model, {
      loss: 'cross-entropy',
      optimizer: { kind: 'sgd', lr: 0 },
    });
    const { loss } = await trainer.step({ input: given, target });
    expect(loss).toBe((await trainer.step({ input: tensor, target })).loss);
  });
});
