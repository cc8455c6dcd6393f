/** The networks against torchvision's own: keys, shapes, names and values (shared/fixtures/zoo). */
import { join } from 'node:path';
import { createFeatureExtractor, pruneModel, type OnnxModel } from 'onnx-tapir';
import { createModel, listModels } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { ONE_CORE } from '../../../support/cpu.js';
import { sharedNote } from '../../../support/fixtures.js';
import { isRelease } from '../../../support/rounds.js';
import {
  differences,
  imageOf,
  readFacts,
  weightsOf,
  zooFiles,
  zooFolder,
  type Facts,
  type Shape,
} from '../../../support/zoo.js';

/** Outputs of one session: more would need gigabytes. */
const MOST_NAMES = 250;

/** The names that hold a tensor, with its shape; of a tuple with one tensor, that. */
function tensorNames({ shapes, fine_shapes: fine }: Facts): [string, readonly number[]][] {
  const all = [...Object.entries(shapes), ...Object.entries(fine)] as [string, Shape | readonly Shape[]][];
  return all.flatMap(([name, shape]) => {
    const parts = (Array.isArray(shape?.[0]) ? shape.filter((part) => part !== null) : [shape]) as Shape[];
    return parts.length === 1 && parts[0] !== null ? [[name, parts[0]!]] : [];
  });
}

/** What differs at all names of a network. */
async function compareNames(model: OnnxModel, facts: Facts): Promise<string[]> {
  const names = tensorNames(facts);
  const values = new Map(
    [...facts.nodes, facts.penultimate, facts.logits].map((value) => [value.node, value]),
  );
  const image = imageOf(facts);
  const problems: string[] = [];
  for (let at = 0; at < names.length; at += MOST_NAMES) {
    const part = names.slice(at, at + MOST_NAMES);
    const extractor = await createFeatureExtractor(model, new Map(part.map(([name]) => [name, name])), {
      session: { graphOptimizationLevel: 'disabled' },
      device: ONE_CORE,
    });
    const outputs = await extractor.run(image);
    await extractor.close();
    for (const [name, shape] of part) {
      const { dims, data } = outputs[name]!;
      if (dims.join() !== shape.join()) problems.push(`${name} is [${dims.join()}], not [${shape.join()}]`);
      const expected = values.get(name);
      if (expected) problems.push(...differences(expected, { dims, data }));
    }
  }
  return problems;
}

/** Networks whose blocks another one has too, in other numbers: a release tries them. */
const LIKE_OTHERS = new Set(['alexnet', 'resnet152', 'resnext50_32x4d', 'efficientnet_v2_m', 'resnet18']);

describe(`torchvision’s networks${sharedNote}`, () => {
  const known = listModels();
  const files = zooFiles.map((file) => ({ file, facts: readFacts(join(zooFolder, file)) }));

  const tried = files.filter(({ facts }) => isRelease || !LIKE_OTHERS.has(facts.architecture));

  // Up to five seconds each: every name of a whole network against torch, which finds what no small graph has.
  it.each(tried.filter(({ facts }) => known.includes(facts.architecture)))(
    '$file: keys, names and values',
    { timeout: 300_000 },
    async ({ facts }) => {
      const { architecture, num_classes: numClasses, input } = facts;
      const size = input.shape[2]!;
      const model = await createModel(architecture, {
        weights: weightsOf(facts),
        ...(numClasses === 1000 ? {} : { numClasses }),
        ...(size === 224 ? {} : { imageSize: size }),
      });
      const keys = facts.keys.filter(
        ({ key }) => !key.endsWith('num_batches_tracked') && !/^(aux[12]|AuxLogits)\./.test(key),
      );
      const { initializers } = scanModel(
        memorySource(await (await pruneModel(model, ['output'])).bytes()),
      ).graph;
      expect(initializers.map(({ name, dims }) => [name, [...dims]])).toEqual(
        keys.map(({ key, shape }) => [key, [...shape]]),
      );
      expect(new Set(model.namedParameters().map(({ name }) => name))).toEqual(
        new Set(keys.map(({ key }) => key)),
      );
      expect(await compareNames(model, facts)).toEqual([]);
    },
  );
});
