/** Networks of segmentation, detection and video against torchvision's own: keys, names, shapes and values (shared/fixtures/zoo2). */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, pruneModel, type OnnxModel } from 'onnx-tapir';
import { profileModel } from 'onnx-tapir/stages';
import { createModel, listModels } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { groupBy } from '../../../../src/base/group-by.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { ONE_CORE } from '../../../support/cpu.js';
import { sharedNote } from '../../../support/fixtures.js';
import { isRelease, someOf } from '../../../support/rounds.js';
import {
  differences,
  imageOf,
  readFacts,
  tasksFolder,
  weightsOf,
  type Run,
  type SampledValue,
  type TaskFacts,
} from '../../../support/zoo.js';

/** Outputs of one session: more would need gigabytes. */
const MOST_NAMES = 150;
/** Names that run in a check: of a network with more, those whose values are known. A release runs all, for their shapes. */
const MOST_RUN = 500;
const NOT_IN_GRAPH = /(?:^roi_heads\.|num_batches_tracked$)/;

const files =
  tasksFolder === undefined ? [] : readdirSync(tasksFolder).filter((name) => /\.json(\.gz)?$/.test(name));
const known = new Set(listModels());
const all = files
  .map((file) => ({ file, facts: readFacts<TaskFacts>(join(tasksFolder!, file)) }))
  .filter(
    ({ facts }) =>
      known.has(facts.architecture) && ['segmentation', 'detection', 'video'].includes(facts.family),
  );
/** Networks whose parts another one has too, with other numbers: a release tries them. */
const LIKE_OTHERS = [
  'fcn_resnet50.c21.aux.',
  'deeplabv3_resnet50.c5.json',
  'fasterrcnn_resnet50_fpn.coco.',
  'fasterrcnn_resnet50_fpn.none.',
  'r3d_18.',
];
/** Of networks that differ in the number of classes only, one in a check. */
const alike = groupBy(all, ({ facts }) =>
  JSON.stringify([facts.architecture, facts.mode, facts.kwargs['aux_loss']]),
);
const cases = isRelease
  ? all
  : Array.from(alike.values(), ([first]) => first!).filter(
      ({ file }) => !LIKE_OTHERS.some((name) => file.startsWith(name)),
    );
/** To count, a network runs whole: mvit_v1_b, on 16 frames of 224 × 224, for 15 s. */
const counted = someOf(
  cases.filter(({ facts }) => isRelease || facts.architecture !== 'mvit_v1_b'),
  3,
);
const renamed = cases.filter(({ facts }) => facts.old_keys && Object.keys(facts.old_keys).length > 0);

function createFrom(facts: TaskFacts): Promise<OnnxModel> {
  const { architecture, kwargs } = facts;
  return createModel(architecture, {
    weights: weightsOf(facts),
    ...(kwargs['num_classes'] === undefined ? {} : { numClasses: facts.num_classes }),
    ...(kwargs['aux_loss'] === undefined ? {} : { auxLoss: kwargs['aux_loss'] === true }),
    ...(facts.mode === 'backbone' ? { normEps: 1e-5 } : {}),
  });
}

/** The open axes of an input of so many sides. */
function sizesOf(sides: readonly number[]): Record<string, number> {
  const [width, height, frames] = sides.toReversed();
  return { height: height!, width: width!, ...(frames === undefined ? {} : { frames }) };
}

/** What a run's outputs must be, by the names of the file. */
function outputsOf({ outputs = {}, heads = [], logits }: Run): [string, SampledValue][] {
  const levels = heads.filter(({ takes }) => takes === 'levels').map((head) => head.outputs);
  const named = [outputs, ...levels].flatMap((values) => Object.entries(values));
  const all = named.map(([key, value]): [string, SampledValue] => [key, { ...value, node: key }]);
  return logits ? [['output', logits], ...all] : all;
}

/** What differs at the outputs and all names of a network. */
async function compare(model: OnnxModel, facts: TaskFacts, run: Run): Promise<string[]> {
  const prefix = facts.key_prefix ?? '';
  const given = [...(run.nodes ?? []), run.penultimate, run.penultimate_low, run.penultimate_aux, run.logits];
  const values = new Map(given.flatMap((value) => (value ? [[value.node, value]] : [])));
  const shapes = { ...facts.fine_shapes, ...run.shapes };
  // Further inputs show what depends on the size: their outputs, and the nodes whose values are known.
  let names = Object.entries({ ...facts.shapes, ...facts.fine_shapes })
    .filter(
      ([name, shape]) =>
        shape !== null && typeof shape[0] === 'number' && (run === facts || values.has(name)),
    )
    .map(([name]) => name);
  const nameOf = (name: string): string => (name === 'x' ? 'input' : prefix + name);
  const problems: string[] = [];
  if (names.length > MOST_RUN && !isRelease) {
    const { plan } = await pruneModel(model, names.map(nameOf));
    expect(plan.resolved).toHaveLength(names.length);
    names = names.filter((name) => values.has(name));
  }
  for (let at = 0; at < names.length; at += MOST_NAMES) {
    const part = names.slice(at, at + MOST_NAMES);
    const outputs = at === 0 ? outputsOf(run) : [];
    const requests = part.map((name): [string, string] => [nameOf(name), `node ${name}`]);
    const extractor = await createFeatureExtractor(
      model,
      [...requests, ...outputs.map(([key]): [string, string] => [key, `output ${key}`])],
      { session: { graphOptimizationLevel: 'disabled' }, device: ONE_CORE },
    );
    const results = await extractor.run(imageOf(run));
    await extractor.close();
    for (const name of part) {
      const result = results[`node ${name}`]!;
      const shape = shapes[name];
      if (run === facts && result.dims.join() !== shape?.join())
        problems.push(`${name} is [${result.dims.join()}], not [${shape?.join()}]`);
      const expected = values.get(name);
      if (expected) problems.push(...differences(expected, result));
    }
    for (const [key, expected] of outputs) problems.push(...differences(expected, results[`output ${key}`]!));
  }
  return problems;
}

/** A digest of the file of a model. */
async function digestOf(model: OnnxModel): Promise<string> {
  const names = model.outputs.map(({ name }) => name);
  return createHash('sha256')
    .update(await (await pruneModel(model, names)).bytes())
    .digest('hex');
}

/** The initializers of a whole model, in the order of the file. */
async function initializersOf(
  model: OnnxModel,
): Promise<readonly { name: string; dims: readonly number[] }[]> {
  const names = model.outputs.map(({ name }) => name);
  const bytes = await (await pruneModel(model, names)).bytes();
  return scanModel(memorySource(bytes)).graph.initializers;
}

describe(`torchvision’s networks of other tasks${sharedNote}`, () => {
  // Up to six seconds each: every name of a whole network against torch, which finds what no small graph has.
  it.each(cases)('$file: keys, names and values', { timeout: 600_000 }, async ({ facts }) => {
    const model = await createFrom(facts);
    const keys = facts.keys.filter(({ key }) => !NOT_IN_GRAPH.test(key));
    const initializers = await initializersOf(model);
    expect(initializers.map(({ name, dims }) => [name, [...dims]])).toEqual(
      keys.map(({ key, shape }) => [key, [...shape]]),
    );
    expect(new Set(model.namedParameters().map(({ name }) => name))).toEqual(
      new Set(keys.map(({ key }) => key)),
    );
    for (const run of [facts, ...(facts.more ?? [])]) expect(await compare(model, facts, run)).toEqual([]);
  });

  it.each(someOf(renamed, 2))('$file: keys of old checkpoints', { timeout: 120_000 }, async ({ facts }) => {
    const weights = weightsOf(facts);
    const old = new Map(weights);
    const rename = ([before, now]: [string, string]): void => {
      old.set(before, weights.get(now)!);
      old.delete(now);
    };
    const names = Object.entries(facts.old_keys!);
    names.filter(([, now]) => !NOT_IN_GRAPH.test(now)).forEach(rename);
    const create = (): Promise<OnnxModel> => createModel(facts.architecture, { weights: old });
    expect(await digestOf(await create())).toBe(await digestOf(await createFrom(facts)));
    // The file's description names keys that are not used.
    names.forEach(rename);
    expect(old.size).toBe(weights.size);
    await create();
  });

  it.each(counted)('$file: parameters and multiply-adds', { timeout: 120_000 }, async ({ facts }) => {
    const model = await createFrom(facts);
    const isDetector = facts.family === 'detection';
    const sizeOf = ({ key, shape, kind }: TaskFacts['keys'][number], isLeftOut: boolean): number =>
      kind === 'parameter' && isLeftOut === NOT_IN_GRAPH.test(key) ? shape.reduce((a, b) => a * b, 1) : 0;
    const [count, leftOut] = [false, true].map((isLeftOut) =>
      facts.keys.reduce((sum, key) => sum + sizeOf(key, isLeftOut), 0),
    );
    const parameters = model.parameters().reduce((sum, { dims }) => sum + dims.reduce((a, b) => a * b, 1), 0);
    expect(parameters).toBe(count);
    // Numbers of frozen norms are buffers in torchvision, and no parameters.
    expect(count! + leftOut!).toBe(facts.parameters);
    const [, , ...sides] = facts.input.shape;
    const isOpen = model.inputs[0]!.dims!.slice(2).some((size) => typeof size !== 'number');
    const inputSizes = isOpen ? sizesOf(sides) : {};
    const { nodes } = await profileModel(model, { batch: 1, inputSizes });
    // The fixtures count no products of attention.
    const summed = nodes.filter(
      ({ name }) =>
        !/attn\.matmul(?:_1)?$|attn\/MatMul_[12]_output_0$/.test(name) &&
        // Of a detector, its backbone.
        (!isDetector || /^\/?backbone[./]/.test(name)),
    );
    const macs = summed.reduce((sum, node) => sum + (node.macs ?? 0), 0);
    expect(macs).toBe(facts.macs_conv_linear_whole_input);
  });
});
