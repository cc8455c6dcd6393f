import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createFeatureExtractor } from '../../../src/extract/create-feature-extractor.js';
import type { Node, Value } from '../../../src/onnx/graph/graph.js';
import { choosePlaces } from '../../../src/extract/stages/graph/choose-places.js';
import { lineUp } from '../../../src/onnx/graph/cost/cut-line.js';
import { stagesAt } from '../../../src/extract/stages/graph/stages.js';
import { cutGraph } from '../../../src/onnx/graph/rewrite/prune.js';
import { createModel } from '../../../src/learn/zoo/create-model.js';
import { NO_SIZES } from '../../../src/run/model/open/input-sizes.js';
import { modelInternals } from '../../../src/run/model/open/model-state.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { measureCosts } from '../../../src/run/model/oracle/model-costs.js';
import { profileModel } from '../../../src/extract/stages/profile-model.js';
import { pruneModel } from '../../../src/run/model/oracle/prune-model.js';
import { splitModel, type ModelStages } from '../../../src/extract/stages/split-model.js';
import { elementCount, type Tensor } from '../../../src/onnx/tensor/tensor.js';
import { seededImages } from '../../support/exports.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { chain, modelBytes, type GraphSpec } from '../../support/graphs.js';
import { someOf } from '../../support/rounds.js';
import { CUT_NETWORKS, stagesFacts, stagesModel, type KnownCuts } from '../../support/stages.js';

const scratch = scratchFolder();
const EXACT = { session: { graphOptimizationLevel: 'disabled' }, outputDtype: 'keep' } as const;

/** Runs the stages one after the other. */
async function runStages(
  { stages }: ModelStages,
  feeds: Record<string, Tensor>,
): Promise<Record<string, Tensor>> {
  const known = { ...feeds };
  for (const { model, inputs } of stages) {
    const extractor = await createFeatureExtractor(model, undefined, EXACT);
    const fed = Object.fromEntries(inputs.map(({ name }) => [name, known[name]!]));
    Object.assign(known, await extractor.run(fed));
    await extractor.close();
  }
  return known;
}

async function runWhole(
  model: Uint8Array | string,
  outputs: readonly string[],
  feeds: Record<string, Tensor>,
): Promise<Record<string, Tensor>> {
  const extractor = await createFeatureExtractor(model, outputs, EXACT);
  const result = await extractor.run(feeds);
  await extractor.close();
  return result;
}

function imagesOf({ input }: KnownCuts & { input: { seed?: string } }): Record<string, Tensor> {
  const data = seededImages(input.seed ?? 'x', input.shape);
  return { [input.name]: { dtype: 'float32', dims: [...input.shape], data } };
}

describe.each(someOf(CUT_NETWORKS, 2))('splitting %s', (name) => {
  const facts = stagesFacts<KnownCuts>(name);
  const bytes = stagesModel(name);

  const three = facts.balanced.find(({ stages }) => stages === 3)!;

  it.each(['macs', 'parameters'] as const)('is best with three stages by %s', async (by) => {
    const { stages, crossing, balance, uncounted } = await splitModel(bytes, { stages: 3 }, { by });
    const largest = Math.max(...stages.map((stage) => stage[by]));
    expect(largest).toBe(by === 'macs' ? three.max_macs : three.by_weights.max_weights);
    expect(uncounted).toEqual([]);
    if (by === 'parameters') return;
    expect(stages.reduce((sum, { macs }) => sum + macs, 0)).toBe(facts.macs);
    expect(balance).toBeCloseTo(facts.macs / (3 * three.max_macs), 12);
    expect(three.all_optimal).toContainEqual(crossing.map(({ tensors }) => tensors[0]));
    const crossed = crossing.reduce((sum, { bytesPerSample }) => sum + bytesPerSample, 0);
    expect(crossed).toBe(three.bytes_per_sample);
  });

  it('is best in every number of stages, with every number of tensors that cross', async () => {
    const model = await openModel(bytes);
    const { graph } = modelInternals.of(model);
    const outputs = graph.outputs.map((value) => ({ request: '', key: value.name, value, why: '' }));
    const { nodes: inLine, spans } = lineUp(cutGraph(graph, { outputs }));
    // The known optima count sizes as tensors that cross.
    const line = {
      nodes: inLine,
      spans: spans.map(({ value, first, last }) => ({ value, first, last, lastData: last })),
    };
    const { nodes, shapes } = await measureCosts(model, { batch: undefined, inputSizes: NO_SIZES });
    const single = facts.balanced.map((known) => ({ ...known, max_tensors: 1 }));
    for (const { stages, max_tensors: maxTensors, max_macs } of [...single, ...facts.file_order.balanced]) {
      const costOf = (node: Node): number => nodes.get(node)!.macs!;
      const bytesOf = (value: Value): number => elementCount(shapes.get(value)!.dims);
      const weightsOf = (): [] => [];
      const chosen = choosePlaces(line, { stages, maxTensors, limits: [], costOf, bytesOf, weightsOf });
      const sizes = new Map<number, number>();
      for (const [node, stage] of stagesAt(line, chosen))
        sizes.set(stage, (sizes.get(stage) ?? 0) + costOf(node));
      expect(Math.max(...sizes.values())).toBe(max_macs);
    }
  });

  it('gives the bits of the whole model, cut at all its points', async () => {
    const feeds = imagesOf(facts);
    const { output } = await runWhole(bytes, ['output'], feeds);
    const points = facts.cut_points;
    const split = await splitModel(bytes, { cuts: points.map(({ tensor }) => tensor) });
    expect(split.crossing).toEqual(
      points.map(({ tensor, bytes_per_sample }) => ({ tensors: [tensor], bytesPerSample: bytes_per_sample })),
    );
    const before = points.map((_, i) =>
      split.stages.slice(0, i + 1).reduce((sum, { macs }) => sum + macs, 0),
    );
    expect(before).toEqual(points.map(({ macs_before }) => macs_before));
    expect((await runStages(split, feeds))['output']!.data).toEqual(output!.data);
  });
});

describe('splitModel', () => {
  it('gives the bits of the whole model where several tensors cross', async () => {
    const facts = stagesFacts<KnownCuts>('unet');
    const split = await splitModel(stagesModel('unet'), { stages: 4 }, { maxTensors: 3 });
    expect(Math.max(...split.crossing.map(({ tensors }) => tensors.length))).toBeGreaterThan(1);
    const feeds = imagesOf(facts);
    const whole = await runWhole(stagesModel('unet'), ['output'], feeds);
    expect((await runStages(split, feeds))['output']!.data).toEqual(whole['output']!.data);
  });

  it('gives each stage its own weights only', async () => {
    const bytes = stagesModel('resnet');
    const { stages } = await splitModel(bytes, { stages: 4 });
    const names = stages.map(({ model }) => model.plan.kept.initializers);
    expect(new Set(names.flat()).size).toBe(names.flat().length);
    const sizes = await Promise.all(stages.map(async ({ model }) => (await model.bytes()).length));
    const weights = stages.reduce((sum, { weightBytes }) => sum + weightBytes, 0);
    expect(weights).toBe(4 * stagesFacts<KnownCuts>('resnet').weights);
    for (const [i, size] of sizes.entries())
      expect(size - stages[i]!.weightBytes).toBeLessThan(bytes.length - weights + 1000);
  });

  it('splits what pruneModel gives, with its added parts', async () => {
    const pruned = await pruneModel(tinyResNet(), { layer3: 'map' }, { pool: 'avg', input: 'image-uint8' });
    const split = await splitModel(pruned, { stages: 2 });
    const pixels = new Uint8Array(2 * 64 * 64 * 3).map((_, i) => (i * 7919) % 256);
    const feeds = {
      [split.stages[0]!.inputs[0]!.name]: { dtype: 'uint8', dims: [2, 64, 64, 3], data: pixels },
    } as const;
    const [name] = split.stages[1]!.outputs.map((output) => output.name);
    const whole = await createFeatureExtractor(pruned, undefined, EXACT);
    const { map } = await whole.run(feeds);
    await whole.close();
    const run = await runStages(split, feeds);
    expect(run[name!]!.dims).toEqual([2, 64]);
    expect(run[name!]!.data).toEqual(map!.data);
  });

  it('cuts after the names that are asked for, and keeps outputs in their stage', async () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['early', 'y'],
      nodes: [
        { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
        { op: 'Neg', inputs: ['a'], outputs: ['early'] },
        { op: 'Abs', name: 'second', inputs: ['a'], outputs: ['b'] },
        { op: 'Add', inputs: ['b', 'x'], outputs: ['y'] },
      ],
    };
    const { stages, crossing } = await splitModel(modelBytes(spec), { cuts: ['first', 'second'] });
    expect(
      stages.map(({ inputs, outputs }) => [inputs, outputs].map((all) => all.map(({ name }) => name))),
    ).toEqual([
      [['x'], ['a']],
      [['a'], ['b', 'early']],
      [['b', 'x'], ['y']],
    ]);
    expect(crossing.map(({ tensors }) => tensors)).toEqual([
      ['a', 'x'],
      ['b', 'x'],
    ]);
  });

  it('lets sizes cross, or computes them again, and refuses a stage that computes nothing', async () => {
    const square = { dims: [4, 4], values: Array.from({ length: 16 }, (_, i) => i / 16) };
    const spec = (isSkipped: boolean): GraphSpec => ({
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: [{ name: 'y', dims: ['n', 4] }],
      initializers: { w: square, v: square },
      nodes: [
        { op: 'Shape', inputs: ['x'], outputs: ['size'] },
        { op: 'MatMul', inputs: ['x', 'w'], outputs: ['a'] },
        { op: 'Relu', inputs: ['a'], outputs: ['b'] },
        { op: 'Shape', inputs: ['b'], outputs: ['again'] },
        { op: 'MatMul', inputs: ['b', 'v'], outputs: ['c'] },
        { op: 'Reshape', inputs: ['c', 'size'], outputs: ['d'] },
        { op: 'Reshape', inputs: ['d', 'again'], outputs: isSkipped ? ['e'] : ['y'] },
        ...(isSkipped ? [{ op: 'Add', inputs: ['e', 'x'], outputs: ['y'] }] : []),
      ],
    });
    const split = await splitModel(modelBytes(spec(false)), { stages: 2 });
    expect(split.stages.map(({ macs }) => macs)).toEqual([16, 16]);
    // The sizes of "b" are computed again; those of the input are taken.
    expect([...split.crossing[0]!.tensors].toSorted()).toEqual(['a', 'size']);
    const x: Tensor = { dtype: 'float32', dims: [3, 4], data: Float32Array.from({ length: 12 }, Math.cos) };
    const whole = await runWhole(modelBytes(spec(false)), ['y'], { x });
    expect((await runStages(split, { x }))['y']!.data).toEqual(whole['y']!.data);
    // With the input needed at the end, two tensors of data cross all places.
    await expect(splitModel(modelBytes(spec(true)), { stages: 2 })).rejects.toMatchObject({
      code: 'SPLIT_IMPOSSIBLE',
      message: expect.stringMatching(/maxTensors 2, which suffices/) as string,
    });
    const wider = await splitModel(modelBytes(spec(true)), { stages: 2 }, { maxTensors: 2 });
    expect(wider.balance).toBe(1);
  });

  it('balances what nodes write', async () => {
    const { stages, balance } = await splitModel(stagesModel('resnet'), { stages: 2 }, { by: 'activations' });
    const bytes = stages.map(({ activationBytes }) => activationBytes);
    const whole = await profileModel(stagesModel('resnet'));
    expect(bytes[0]! + bytes[1]!).toBe(whole.total.activationBytes);
    expect(balance).toBeCloseTo((bytes[0]! + bytes[1]!) / (2 * Math.max(...bytes)), 12);
    const byMacs = await splitModel(stagesModel('resnet'), { stages: 2 });
    expect(Math.max(...byMacs.stages.map(({ activationBytes }) => activationBytes))).toBeGreaterThan(
      Math.max(...bytes),
    );
  });

  it('is balanced where no stage costs anything', async () => {
    const { stages, balance } = await splitModel(modelBytes(chain(4)), { stages: 2 });
    expect(stages.map(({ macs }) => macs)).toEqual([0, 0]);
    expect(balance).toBe(1);
  });

  it('balances what nodes take on this machine', async () => {
    const { stages, balance } = await splitModel(stagesModel('resnet'), { stages: 2 }, { by: 'time' });
    const times = stages.map(({ milliseconds }) => milliseconds!);
    expect(Math.min(...times)).toBeGreaterThan(0);
    expect(balance).toBeCloseTo((times[0]! + times[1]!) / (2 * Math.max(...times)), 12);
  });

  it('keeps the declared shape on the inputs of a stage', async () => {
    const { stages } = await splitModel(stagesModel('resnet'), { stages: 2 });
    expect(stages[1]!.inputs).toEqual([
      { name: '/layer1/layer1.1/Add_output_0', dtype: 'float32', dims: ['batch', 8, 16, 16] },
    ]);
  });

  it('says of a cut that no stage can end at why', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: ['y'],
      initializers: { w: [1, 2, 3, 4] },
      nodes: [
        { op: 'Neg', inputs: ['x'], outputs: ['aside'] },
        { op: 'Neg', inputs: ['w'], outputs: ['fixed'] },
        { op: 'Shape', inputs: ['x'], outputs: ['sizes'] },
        { op: 'Expand', inputs: ['w', 'sizes'], outputs: ['rows'] },
        { op: 'Add', inputs: ['x', 'rows'], outputs: ['a'] },
        { op: 'Mul', inputs: ['a', 'fixed'], outputs: ['y'] },
      ],
    };
    for (const [cut, reason] of [
      ['aside', '"aside" is needed by no output'],
      ['fixed', '"fixed" does not depend on an input'],
      ['x', '"x" is computed by no node'],
      ['sizes', 'stage 0 would give nothing: it computes only sizes'],
    ])
      // oxlint-disable-next-line no-await-in-loop -- one case after the other
      await expect(splitModel(modelBytes(spec), { cuts: [`tensor:${cut}`] })).rejects.toMatchObject({
        code: 'SPLIT_IMPOSSIBLE',
        message: expect.stringContaining(reason!),
      });
  });

  it('finds stages that fit into memory, and refuses what does not', async () => {
    const bytes = stagesModel('vit');
    const free = await splitModel(bytes, { stages: 3 });
    const weights = free.stages.map(({ weightBytes }) => weightBytes);
    const limit = Math.max(...weights) + 20_000;
    const { stages } = await splitModel(bytes, { stages: 3 }, { memoryBytes: limit });
    for (const { weightBytes } of stages) expect(weightBytes).toBeLessThan(limit);
    await expect(splitModel(bytes, { stages: 3 }, { memoryBytes: 1000 })).rejects.toMatchObject({
      code: 'SPLIT_IMPOSSIBLE',
      message: expect.stringContaining('the model needs'),
    });
  });

  it.each([
    [{ stages: 40 }, {}, 'SPLIT_IMPOSSIBLE'],
    [{ cuts: ['layer3', 'layer1'] }, {}, 'SPLIT_IMPOSSIBLE'],
    [{ cuts: ['fc'] }, {}, 'SPLIT_IMPOSSIBLE'],
    [{ cuts: ['input'] }, {}, 'SPLIT_IMPOSSIBLE'],
    [{ cuts: ['layr3'] }, {}, 'NAME_NOT_FOUND'],
    [{ cuts: [] }, {}, 'OPTION_INVALID'],
    [{ stages: 0 }, {}, 'OPTION_INVALID'],
    [{ stages: 2, cuts: ['layer1'] }, {}, 'OPTION_INVALID'],
    [{ stages: 2 }, { by: 'size' }, 'OPTION_INVALID'],
    [{ stages: 2 }, { memoryBytes: [1, 2, 3] }, 'SPLIT_IMPOSSIBLE'],
  ] as const)('refuses %j', async (places, options, code) => {
    await expect(splitModel(tinyResNet(), places as never, options as never)).rejects.toMatchObject({ code });
  });

  it('splits a chain of 3,000 nodes in little time', async () => {
    const { stages } = await splitModel(modelBytes(chain(3000)), { stages: 3 });
    expect(stages).toHaveLength(3);
  });

  const whole = [
    ['resnet50', ['layer2', 'layer3.4']],
    ['swin_t', ['features.3']],
  ] as const;
  it.each(someOf(whole, 2))('gives the bits of a whole %s', async (name, cuts) => {
    const path = join(scratch, `${name}.onnx`);
    await (await createModel(name, { seed: 1 })).save(path);
    const model = await openModel(path);
    const last = name === 'swin_t' ? 'head' : 'fc';
    const split = await splitModel(await pruneModel(model, [last]), { cuts });
    expect(split.crossing.map(({ tensors }) => tensors.length)).toEqual(cuts.map(() => 1));
    const dims = [1, 3, 224, 224];
    const data = seededImages('big', dims);
    const feeds = { [model.inputs[0]!.name]: { dtype: 'float32', dims, data } } as const;
    const whole = await runWhole(path, [last], feeds);
    const run = await runStages(split, feeds);
    expect(Object.values(whole)[0]!.data).toEqual(run[split.stages.at(-1)!.outputs[0]!.name]!.data);
    expect(new Set(Object.values(whole)[0]!.data as Float32Array).size).toBeGreaterThan(100);
  });
});

it('takes the sizes that a pruned model was made with, where it is given none', async () => {
  const convolution = { dims: [3, 3, 1, 1], values: Array.from({ length: 9 }, (_, i) => i / 9) };
  const bytes = modelBytes({
    inputs: [{ name: 'x', dims: ['n', 3, 'h', 'w'] }],
    outputs: [{ name: 'b', dims: ['n', 3, 'h', 'w'] }],
    nodes: [
      { op: 'Conv', inputs: ['x', 'v'], outputs: ['a'] },
      { op: 'Conv', inputs: ['a', 'v'], outputs: ['b'] },
    ],
    initializers: { v: convolution },
  });
  const pruned = await pruneModel(bytes, ['b'], { inputSizes: { h: 10, w: 20 } });
  const macsOf = async (options: object): Promise<number[]> =>
    (await splitModel(pruned, { stages: 2 }, options)).stages.map(({ macs }) => macs);
  expect(await macsOf({})).toEqual([1800, 1800]);
  expect(await macsOf({ inputSizes: 5 })).toEqual([225, 225]);
});
