/** Smoothed activations: a network with a large channel gets them, and every name of exports has the value that it had, or is refused. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, isTapirError, pruneModel, type Extractor } from 'onnx-tapir';
import { quantizeModel, type StaticReport } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { layOutRewrite } from '../../../../src/onnx/graph/rewrite/lay-out.js';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { readModel } from '../../../../src/run/model/open/open-model.js';
import { SessionHolder } from '../../../../src/run/model/oracle/session-holder.js';
import { collectChunks } from '../../../../src/onnx/file/emit.js';
import { WireReader } from '../../../../src/onnx/file/wire/wire.js';
import { wholeRewrite } from '../../../../src/products/precision/lowering/lower-precision.js';
import { ChoiceBench } from '../../../../src/products/precision/lowering/fixed-scales/choice-bench.js';
import { findSmoothable } from '../../../../src/products/precision/lowering/fixed-scales/smooth-subject.js';
import { roundingBy } from '../../../../src/products/precision/lowering/search/activation-range.js';
import { calibrate } from '../../../../src/products/precision/lowering/search/calibrate.js';
import { readSubject } from '../../../../src/products/precision/lowering/fixed-scales/static-subject.js';
import { makeUnits } from '../../../../src/products/precision/lowering/fixed-scales/static-units.js';
import { compareVectors } from '../../../../src/onnx/tensor/compare-vectors.js';
import type { NamedTensor } from '../../../../src/onnx/tensor/tensor.js';
import { addsInt8Exactly } from '../../../support/cpu.js';
import { fixturePath, projectPath, scratchFolder } from '../../../support/fixtures.js';
import { modelBytes, type WeightSpec } from '../../../support/graphs.js';
import { someOf } from '../../../support/rounds.js';

/** The model with every layer in 8 bits, and the channels of what products read multiplied by 3 and 1/3 in turn. */
async function smooth(bytes: Uint8Array, input: NamedTensor): Promise<{ bytes: Uint8Array; count: number }> {
  const model = readModel(bytes);
  const state = modelInternals.of(model);
  const rewrite = wholeRewrite(model);
  const subject = await readSubject(state, rewrite, new Set());
  const sessions = new SessionHolder(model);
  const tensors = [...subject.candidates, ...subject.joins.flat()].map(({ tensor }) => tensor);
  const request = {
    tensors: new Set(tensors),
    channels: new Set(findSmoothable(subject).keys()),
    results: subject.candidates.map(({ result }) => result.name),
    isForRanges: () => true,
    signal: undefined,
  };
  const plain = await calibrate(rewrite, [[input]], { ...request, factors: new Map() }, sessions);
  const factors = new Map(
    Array.from(plain.channels, ([tensor, { low }]) => [tensor, low.map((_, k) => (k % 2 === 0 ? 3 : 1 / 3))]),
  );
  const calibration = await calibrate(rewrite, [[input]], { ...request, factors }, sessions);
  const { units } = await makeUnits(subject, calibration);
  const levels = Array.from(calibration.ranges, ([tensor, range]) => {
    const own = factors.get(tensor);
    return [tensor, { ...roundingBy('extremes', range), ...(own && { factors: own }) }] as const;
  });
  const bench = new ChoiceBench(subject, { rule: '', units, levels: new Map(levels) }, sessions, undefined);
  const made = bench.make(new Set(units.keys())).rewrite;
  await sessions.close();
  const written = await state.withSource(async (source) =>
    collectChunks(source, layOutRewrite(made, 'tensors', new WireReader(source))),
  );
  return { bytes: written, count: factors.size };
}

async function valueOf(extractor: Extractor, input: NamedTensor, name: string): Promise<Float32Array> {
  return (await extractor.run(input))[name]!.data as Float32Array;
}

describe.each(['vit', 'convnext', 'efficientnet', 'swin'])('%s with smoothed activations', (network) => {
  const exporters = network === 'vit' || network === 'swin' ? ['ts', 'dynamo'] : ['dynamo', 'ts'];
  it.each(someOf(exporters, 2))('has right values, or none, under every name (%s)', async (exporter) => {
    const exact = readFileSync(fixturePath(`modules/${network}.${exporter}.onnx`));
    const names = Object.keys(
      JSON.parse(readFileSync(fixturePath(`modules/${network}.json`), 'utf8')) as object,
    );
    const { inputs } = readModel(exact);
    const dims = inputs[0]!.dims!.map((size) => (typeof size === 'number' ? size : 2));
    const next = createRandom(1);
    const data = Float32Array.from({ length: dims.reduce((a, b) => a * b) }, () => 2 * next() - 1);
    const input = { name: inputs[0]!.name, dtype: 'float32', dims, data } as const;
    const { bytes, count } = await smooth(exact, input);
    expect(count).toBeGreaterThan(0);
    const known: string[] = [];
    for (const name of names) {
      try {
        await pruneModel(exact, [name]);
        await pruneModel(bytes, [name]);
        known.push(name);
      } catch (error) {
        if (!isTapirError(error)) throw error;
      }
    }
    expect(known.length).toBeGreaterThan(names.length / 2);
    await using before = await createFeatureExtractor(exact, known);
    await using after = await createFeatureExtractor(bytes, known);
    const [exactly, smoothed] = [await before.run(input), await after.run(input)];
    for (const name of known) {
      const [a, b] = [exactly, smoothed].map((values) => values[name]!.data as Float32Array);
      const { cosine } = compareVectors(a!, b!);
      expect([name, cosine > 0.95]).toEqual([name, true]);
    }
  });
});

const [SIZE, CHANNELS] = [16, 16];
const LARGE = 60;

/** Patches, a norm of which one channel may be large, as those of trained transformers, and a layer that reads it weakly. */
function tokenNet(times: number): Uint8Array {
  const next = createRandom(5);
  const numbers = (dims: readonly number[], of: (at: number) => number): WeightSpec => ({
    dims,
    values: Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, at) => of(at) * (next() - 0.5)),
  });
  const one = (at: number): number => (at === 3 ? times : 1);
  return modelBytes(
    {
      inputs: [{ name: 'input', dims: ['batch', 3, SIZE, SIZE] }],
      outputs: [{ name: 'y', dims: ['batch', CHANNELS] }],
      nodes: [
        {
          name: '/patch/Conv',
          op: 'Conv',
          inputs: ['input', 'patch.weight'],
          outputs: ['p'],
          ints: { strides: [4, 4] },
        },
        { name: '/Transpose', op: 'Transpose', inputs: ['p'], outputs: ['t'], ints: { perm: [0, 2, 3, 1] } },
        {
          name: '/norm/LayerNormalization',
          op: 'LayerNormalization',
          inputs: ['t', 'norm.weight', 'norm.bias'],
          outputs: ['n'],
        },
        { name: '/fc/MatMul', op: 'MatMul', inputs: ['n', 'fc.weight'], outputs: ['f'] },
        {
          name: '/ReduceMean',
          op: 'ReduceMean',
          inputs: ['f'],
          outputs: ['y'],
          ints: { axes: [1, 2], keepdims: 0 },
        },
      ],
      initializers: {
        'patch.weight': numbers([CHANNELS, 3, 4, 4], () => 1),
        'norm.weight': { dims: [CHANNELS], values: Array.from({ length: CHANNELS }, (_, at) => one(at)) },
        'norm.bias': numbers([CHANNELS], () => 0.1),
        'fc.weight': numbers([CHANNELS, CHANNELS], (at) => 1 / one(Math.floor(at / CHANNELS))),
      },
    },
    { opset: 17 },
  );
}

describe('quantizeModel of a network with a large channel', () => {
  const transform = { resize: SIZE, crop: SIZE } as const;
  const options = { transform, activations: 'static', minCosine: 0.5, minNeighbours: 0 } as const;
  const photos = projectPath('examples/photos');

  it.runIf(addsInt8Exactly)(
    'smooths it, with nearer vectors and the same names, and the same again',
    async () => {
      const bytes = tokenNet(LARGE);
      const { model, report } = await quantizeModel(bytes, photos, options);
      expect((report as StaticReport).calibration.rule).toMatch(/, smoothed$/);
      expect(report.measured![0]!.least).toBeGreaterThan(0.99);
      const again = await quantizeModel(bytes, photos, options);
      const files = ['one', 'two'].map((name) => join(scratchFolder(), `smoothed-${name}.onnx`)) as [
        string,
        string,
      ];
      await model.save(files[0]);
      await again.model.save(files[1]);
      expect(readFileSync(files[1]).equals(readFileSync(files[0]))).toBe(true);
      expect(model.nodes.filter(({ opType }) => opType === 'Mul')).toHaveLength(1);
      await using before = await createFeatureExtractor(bytes, ['norm', 'fc']);
      await using after = await createFeatureExtractor(model, ['norm', 'fc']);
      const data = Float32Array.from({ length: 3 * SIZE ** 2 }, (_, i) => Math.sin(i / 5));
      const input = { name: 'input', dtype: 'float32', dims: [1, 3, SIZE, SIZE], data } as const;
      for (const name of ['norm', 'fc'])
        expect(
          compareVectors(await valueOf(before, input, name), await valueOf(after, input, name)).cosine,
        ).toBeGreaterThan(0.99);
    },
  );

  it('leaves channels that are alike', async () => {
    const { model, report } = await quantizeModel(tokenNet(1), photos, options);
    expect((report as StaticReport).calibration.rule).not.toMatch(/smoothed/);
    expect(model.nodes.some(({ opType }) => opType === 'Mul')).toBe(false);
  });
});
