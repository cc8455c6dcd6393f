/** float16 on torchvision's networks: features against float32, sizes, and what is kept (docs/decisions/034-half-precision.md). */
import { join } from 'node:path';
import { createFeatureExtractor, createModel, listModels, lowerPrecision, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { sharedNote } from '../../support/fixtures.js';
import { cosineOf } from '../../support/cosine.js';
import { imageOf, readFacts, weightsOf, zooFiles, zooFolder } from '../../support/zoo.js';

describe(`float16 of torchvision’s networks${sharedNote}`, () => {
  const known = listModels();
  const files = zooFiles.map((file) => ({ file, facts: readFacts(join(zooFolder, file)) }));

  it.each(files.filter(({ facts }) => known.includes(facts.architecture)))(
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
      const { model, report } = await lowerPrecision(exact);
      const image = imageOf(facts);
      await using float32 = await createFeatureExtractor(exact);
      await using float16 = await createFeatureExtractor(model);
      const [expected, actual] = [await float32.run(image), await float16.run(image)];
      const cosines = Object.keys(expected).map((key) => cosineOf(actual[key]!, expected[key]!));
      for (const cosine of cosines) expect(cosine).toBeGreaterThanOrEqual(0.9999);
      expect(report.bytesAfter / report.bytesBefore).toBeLessThan(0.51);
      expect(report.overflows).toEqual([]);
    },
  );
});
