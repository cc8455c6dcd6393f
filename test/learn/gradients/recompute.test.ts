/** Recomputing between kept tensors: the same gradients, from nodes that the runtime runs again and does not merge. */
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { InferenceSession } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../src/onnx/file/wire/write-model.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { newNode as node, openSession, type Feeds, type Results } from '../../support/gradients.js';
import { countOf, Random, randomGraph } from '../../support/random-graphs.js';
import { rounds } from '../../support/rounds.js';

const scratch = scratchFolder();
const BLOCKS = ['maxpool', 'layer1', 'layer2', 'layer3'];

const wave = (dims: readonly number[]): Feeds[string] => ({
  dtype: 'float32',
  dims: [...dims],
  data: Float32Array.from({ length: countOf(dims) }, (_, i) => Math.sin(i * 0.37)),
});

describe('a ResNet', () => {
  const model = tinyResNet();
  const batch = wave([2, 3, 64, 64]);

  async function gradientsOf(
    recompute: readonly string[],
    level: 'disabled' | 'all',
  ): Promise<{ readonly results: Results; readonly bytes: Uint8Array; readonly added: readonly string[] }> {
    const opened = await openModel(model);
    const withRespectTo = opened.parameters().map(({ name }) => name);
    const pruned = await differentiate(opened, { of: ['tensor:output'], withRespectTo, recompute });
    const bytes = await pruned.bytes();
    const run = await openSession(bytes, level);
    const results = await run({ input: batch, 'gradient/tensor:output': wave([2, 10]) });
    return { results, bytes, added: pruned.plan.added.nodes };
  }

  it('has the same gradients, bit for bit without optimisation', async () => {
    const [kept, again] = [await gradientsOf([], 'disabled'), await gradientsOf(BLOCKS, 'disabled')];
    expect(Object.keys(kept.results).length).toBeGreaterThan(20);
    expect(again.results).toEqual(kept.results);
    expect(again.added.length).toBeGreaterThan(kept.added.length);
  });

  it('has the same gradients except for rounding with optimisation', async () => {
    const [kept, again] = [await gradientsOf([], 'all'), await gradientsOf(BLOCKS, 'all')];
    for (const [name, { data }] of Object.entries(kept.results)) {
      const expected = data as Float32Array;
      const largest = Math.max(...expected.map(Math.abs));
      const worst = Math.max(
        ...expected.map((value, i) => Math.abs(value - (again.results[name]!.data as Float32Array)[i]!)),
      );
      expect(worst, name).toBeLessThanOrEqual(1e-5 * largest + 1e-7);
    }
  });

  it('runs convolutions again that ONNX Runtime does not merge with the first ones', async () => {
    const countConvolutions = async (recompute: readonly string[]): Promise<number> => {
      const optimizedModelFilePath = join(scratch, `optimised-${recompute.length}.onnx`);
      const { bytes } = await gradientsOf(recompute, 'disabled');
      const session = await InferenceSession.create(bytes, {
        graphOptimizationLevel: 'extended',
        optimizedModelFilePath,
        logSeverityLevel: 3,
      });
      await session.release();
      const { nodes } = await openModel(optimizedModelFilePath);
      return nodes.filter(({ opType }) => opType.endsWith('Conv')).length;
    };
    expect(await countConvolutions(BLOCKS)).toBeGreaterThan((await countConvolutions([])) + 3);
  });
});

describe('any graph', () => {
  it.each([0, 20, 40])('random graphs from seed %i, with random tensors kept', async (start) => {
    let more = 0;
    for (let seed = start; seed < start + rounds(6, 20); seed++) {
      const graph = randomGraph(seed, [13, 17, 18][seed % 3]!, seed % 2 === 1);
      const random = new Random(seed);
      const names = graph.inputs.map(({ name }) => name);
      const { nodes } = await openModel(graph.bytes);
      const inner = nodes.flatMap(({ outputs }) => outputs.map(({ name }) => `tensor:${name}`));
      const request = {
        of: [graph.output.name],
        withRespectTo: names,
        inputSizes: Object.fromEntries(graph.inputs.map(({ name, dims }) => [name, dims])),
      };
      const doubles = (dims: readonly number[], data: Float64Array<ArrayBuffer>): Feeds[string] => ({
        dtype: 'float64',
        dims: [...dims],
        data,
      });
      const feeds: Feeds = {
        ...Object.fromEntries(
          graph.inputs.map(({ name, dims }) => [name, doubles(dims, random.values(countOf(dims)))]),
        ),
        [`gradient/${graph.output.name}`]: doubles([], Float64Array.of(1)),
      };
      const kept = await differentiate(graph.bytes, request);
      const recompute = random.shuffle(inner).slice(0, 1 + random.below(3));
      const again = await differentiate(graph.bytes, { ...request, recompute });
      more += again.plan.added.nodes.length - kept.plan.added.nodes.length;
      const run = async (bytes: Uint8Array): Promise<Results> =>
        (await openSession(bytes, 'disabled'))(feeds);
      expect(await run(await again.bytes()), `seed ${seed}`).toEqual(await run(await kept.bytes()));
    }
    expect(more).toBeGreaterThan(0);
  });

  /** Two segments; `b` is read in both, and `mask` is random. */
  const bytes = writeModel({
    irVersion: 8,
    opset: 17,
    name: 'two',
    nodes: [
      node('Mul', ['x', 'w'], 'a'),
      node('Sin', ['a'], 'b'),
      node('RandomUniformLike', ['x'], 'mask', { seed: { float: 3 } }),
      node('Mul', ['b', 'mask'], 'c'),
      node('Sin', ['c'], 'end'),
      node('Mul', ['end', 'b'], 'd'),
      node('Cos', ['d'], 'y'),
    ],
    tensors: [
      {
        name: 'w',
        elemType: ELEMENT_TYPE.float32,
        dims: [4],
        data: new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer),
      },
    ],
    inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float32, dims: ['n', 4] }],
    outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float32, dims: ['n', 4] }],
  });

  it('keeps what a later segment reads, and what is random', async () => {
    const { plan } = await differentiate(bytes, {
      of: ['y'],
      withRespectTo: ['w'],
      recompute: ['tensor:end'],
    });
    const again = plan.added.nodes.filter((name) => /^tapir\/recompute\/[a-z]+$/.test(name));
    expect(again.toSorted()).toEqual(['tapir/recompute/a', 'tapir/recompute/c']);
  });

  it('repeats nothing where nothing is differentiated', async () => {
    const { plan } = await differentiate(bytes, {
      of: ['y'],
      withRespectTo: ['tensor:d'],
      recompute: ['tensor:end'],
    });
    expect(plan.added.nodes.filter((name) => name.startsWith('tapir/recompute/'))).toEqual([]);
  });

  it('refuses other names', async () => {
    const request = { of: ['y'], withRespectTo: ['w'] };
    await expect(differentiate(bytes, { ...request, recompute: ['nothing'] })).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
    });
    await expect(
      differentiate(bytes, { ...request, recompute: 'tensor:end' as unknown as string[] }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
