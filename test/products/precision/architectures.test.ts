/** Lower precision on torchvision's networks: features against float32, and sizes (docs/decisions/034-half-precision.md, 040-int8.md). */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, pruneModel, type PrunedModel, type TensorLike } from 'onnx-tapir';
import { createModel, listModels } from 'onnx-tapir/zoo';
import { lowerPrecision } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { sharedFixtures, sharedNote } from '../../support/fixtures.js';
import { cosineOf } from '../../support/cosine.js';
import { addsInt8Exactly } from '../../support/cpu.js';
import { imageOf, readFacts, weightsOf, zooFiles, zooFolder } from '../../support/zoo.js';
import { isRelease, someOf } from '../../support/rounds.js';

/** Cosines of all outputs, the size of the file, and what the report says. */
async function checkFeatures(exact: PrunedModel, image: TensorLike): Promise<void> {
  const { model, report } = await lowerPrecision(exact);
  await using float32 = await createFeatureExtractor(exact);
  // Optimised for a CPU, the runtime would drop nearly all casts and compute in float32. So every result is rounded.
  const session = { graphOptimizationLevel: 'disabled' } as const;
  await using float16 = await createFeatureExtractor(model, undefined, { session });
  const [expected, actual] = [await float32.run(image), await float16.run(image)];
  for (const [key, tensor] of Object.entries(expected))
    expect(cosineOf(actual[key]!, tensor), key).toBeGreaterThanOrEqual(0.9999);
  expect(report.bytesAfter / report.bytesBefore).toBeLessThan(0.52);
  expect(report.overflows).toEqual([]);
}

describe(`float16 of torchvision’s networks${sharedNote}`, () => {
  const known = listModels();
  const files = zooFiles.map((file) => ({ file, facts: readFacts(join(zooFolder, file)) }));

  // Small ones of each kind; a release tries all.
  const few = new Set(['efficientnet_b0', 'resnet18', 'swin_t']);
  const tried = files.filter(({ facts }) => isRelease || few.has(facts.architecture));

  it.each(tried.filter(({ facts }) => known.includes(facts.architecture)))(
    '$file',
    { timeout: 120_000 },
    async ({ facts }) => {
      const { architecture, num_classes: numClasses, input, penultimate, logits } = facts;
      const size = input.shape[2]!;
      const source = await createModel(architecture, {
        weights: weightsOf(facts),
        ...(numClasses === 1000 ? {} : { numClasses }),
        ...(size === 224 ? {} : { imageSize: size }),
      });
      const exact = await pruneModel(source, { [penultimate.node]: 'features', [logits.node]: 'logits' });
      await checkFeatures(exact, imageOf(facts));
    },
  );

  const folder = sharedFixtures === undefined ? '' : join(sharedFixtures, 'torchvision');
  const exports = folder === '' ? [] : readdirSync(folder).filter((name) => name.endsWith('.onnx'));

  it.skipIf(folder === '')('exports of torch', { timeout: 120_000 }, async () => {
    expect(exports).toHaveLength(4);
    const image = imageOf({ input: { shape: [2, 3, 224, 224], seed: 'input' } });
    for (const name of exports) {
      const fixed = name.includes('batch1');
      const exact = await pruneModel(join(folder, name), { avgpool: 'features' });
      const row = { ...image, dims: [1, 3, 224, 224], data: image.data.slice(0, image.data.length / 2) };
      await checkFeatures(exact, fixed ? row : image);
    }
  });
});

// Five seconds for one: a real transformer, whose weights small ones do not resemble.
describe(`int8 of torchvision’s transformers${sharedNote}`, () => {
  it
    .skipIf(sharedFixtures === undefined || !addsInt8Exactly)
    .each(someOf(['swin_t', 'vit_b_16', 'convnext_tiny'], 3))('%s', { timeout: 120_000 }, async (name) => {
    const files = zooFiles.map((file) => readFacts(join(zooFolder, file)));
    const facts = files.find(({ architecture }) => architecture === name)!;
    const source = await createModel(facts.architecture, { weights: weightsOf(facts) });
    const exact = await pruneModel(source, { [facts.penultimate.node]: 'features' });
    const { model, report } = await lowerPrecision(exact, { precision: 'int8' });
    await using float32 = await createFeatureExtractor(exact);
    await using int8 = await createFeatureExtractor(model);
    const image = imageOf(facts);
    const [expected, actual] = [await float32.run(image), await int8.run(image)];
    expect(cosineOf(actual['features']!, expected['features']!)).toBeGreaterThanOrEqual(0.999);
    expect(report.bytesAfter / report.bytesBefore).toBeLessThan(0.31);
    expect(new Set(report.kept.map(({ operator }) => operator))).toEqual(new Set(['Conv']));
  });
});
