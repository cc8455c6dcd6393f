/** Statistics of small graphs, against sums written down here. */
import { createFeatureExtractor, openModel, type TensorLike } from 'onnx-tapir';
import { estimateBatchNorm, type BatchNormMode } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { writeModel, type NewTensor } from '../../../../src/onnx/file/wire/write-model.js';
import { encodeFloat16 } from '../../../../src/onnx/tensor/float16.js';
import { modelBytes } from '../../../support/graphs.js';
import { momentsOf, normNode, normWeights, rows, twoNorms } from '../../../support/norm-graphs.js';
import { negModel } from '../../../support/tiny-models.js';

const MODES: readonly BatchNormMode[] = [
  'momentum',
  'device0',
  'synced',
  'precise',
  'adabn',
  'adabn-sequential',
];
const TRAINING: readonly BatchNormMode[] = ['momentum', 'device0', 'synced', 'precise'];

function expectNear(found: Float64Array, expected: readonly number[], tolerance = 1e-5): void {
  expected.forEach((value, c) =>
    expect(Math.abs(found[c]! - value)).toBeLessThan(tolerance * Math.max(1, Math.abs(value))),
  );
}

/** What the second norm of {@link twoNorms} reads, if the first one has these statistics. */
function behindFirst(
  x: ReturnType<typeof rows>,
  mean: ArrayLike<number>,
  variance: ArrayLike<number>,
): ReturnType<typeof rows> {
  const inner = x.dims.slice(2).reduce((product, size) => product * size, 1);
  const channels = x.dims[1]!;
  const data = x.data.map((value, i) => {
    const c = Math.floor(i / inner) % channels;
    return Math.max(0, ((value - mean[c]!) / Math.sqrt(variance[c]! + 1e-5)) * (1 + c / 2) - c / 4);
  });
  return { ...x, data };
}

describe('norms of any rank and operator set', () => {
  it.each([
    [[5, 3], 17],
    [[4, 3, 7], 13],
    [[4, 3, 2, 5], 7],
    [[4, 3, 2, 5], 9],
    [[4, 3, 2, 5], 18],
    [[3, 2, 3, 2, 2], 21],
  ] as const)('%j in operator set %i', async (dims, opset) => {
    const batch = rows(dims);
    const model = twoNorms(['n', ...dims.slice(1)], opset);
    const first = momentsOf([batch]);
    for (const mode of ['adabn', 'precise', 'adabn-sequential'] as const) {
      const { layers } = await estimateBatchNorm(model, [batch], { mode });
      expect(layers.map(({ name, count }) => [name, count])).toEqual([
        ['bn1', first.count],
        ['bn2', first.count],
      ]);
      expectNear(layers[0]!.mean, first.mean);
      expectNear(layers[0]!.variance, first.variance);
      const read =
        mode === 'adabn'
          ? behindFirst(batch, [0, 0, 0], [1, 1, 1])
          : behindFirst(batch, first.mean, first.variance);
      expectNear(layers[1]!.mean, momentsOf([read]).mean);
      expectNear(layers[1]!.variance, momentsOf([read]).variance);
    }
  });
});

describe('element types', () => {
  it.each(['float16', 'float64'] as const)(
    '%s: moments are float32 at least, and statistics keep their type',
    async (dtype) => {
      const dims = [6, 2, 4];
      const plain = rows(dims);
      const encode = (values: ArrayLike<number>): Uint16Array | Float64Array =>
        dtype === 'float16' ? encodeFloat16(Float32Array.from(values)) : Float64Array.from(values);
      const elemType = ELEMENT_TYPE[dtype];
      const weights = (name: string, values: number[]): NewTensor => {
        const data = encode(values);
        return { name, elemType, dims: [2], data: new Uint8Array(data.buffer) };
      };
      const norm = (name: string, input: string, output: string) => ({
        name,
        opType: 'BatchNormalization',
        inputs: [input, 'one', 'zero', `${name}.running_mean`, 'one'],
        outputs: [output],
      });
      const bytes = writeModel({
        irVersion: 8,
        opset: 17,
        name: 'g',
        nodes: [norm('bn1', 'x', 'a'), norm('bn2', 'a', 'y')],
        tensors: [
          weights('one', [1, 1]),
          weights('zero', [0, 0]),
          weights('bn1.running_mean', [0, 0]),
          weights('bn2.running_mean', [0, 0]),
        ],
        inputs: [{ name: 'x', elemType, dims: ['n', 2, 4] }],
        outputs: [{ name: 'y', elemType, dims: ['n', 2, 4] }],
      });
      const batch = { dtype, dims, data: encode(plain.data) };
      for (const mode of ['precise', 'adabn-sequential'] as const) {
        const { layers, model } = await estimateBatchNorm(bytes, [batch], { mode });
        const expected = momentsOf([plain]);
        expectNear(layers[0]!.mean, expected.mean, dtype === 'float16' ? 1e-3 : 1e-12);
        expectNear(layers[0]!.variance, expected.variance, dtype === 'float16' ? 1e-3 : 1e-12);
        expectNear(layers[1]!.variance, [1, 1], dtype === 'float16' ? 2e-3 : 2e-5);
        const written = model.namedParameters().find(({ name }) => name === 'bn1.running_mean')!;
        expect((await written.read()).dtype).toBe(dtype);
      }
    },
  );
});

describe('uneven devices', () => {
  const whole = rows([7, 3, 4, 4], 3);
  const model = twoNorms(['n', 3, 4, 4]);

  it('give synced statistics of the whole batch', async () => {
    const alone = await estimateBatchNorm(model, [whole], { mode: 'synced', momentum: 1 });
    const expected = momentsOf([whole]);
    expectNear(
      alone.layers[0]!.variance,
      expected.variance.map((value) => (value * expected.count) / (expected.count - 1)),
    );
    for (const split of [[4, 3], [5, 1, 1], 'chunk', 'balanced'] as const) {
      const devices = (['cpu:0', 'cpu:1', 'cpu:2'] as const).slice(0, split.length === 2 ? 2 : 3);
      const { layers } = await estimateBatchNorm(model, [whole], {
        mode: 'synced',
        momentum: 1,
        devices,
        split,
      });
      for (const [i, layer] of layers.entries()) {
        expectNear(layer.mean, [...alone.layers[i]!.mean], 2e-6);
        expectNear(layer.variance, [...alone.layers[i]!.variance], 2e-6);
      }
    }
  });

  it('do not matter to momentum, and to device0 only the first', async () => {
    const batches = [whole, rows([5, 3, 4, 4], 8)];
    const [one, two] = await Promise.all(
      [undefined, ['cpu:0', 'cpu:1'] as const].map((devices) =>
        estimateBatchNorm(model, batches, { mode: 'momentum', devices }),
      ),
    );
    expect(two!.layers).toEqual(one!.layers);
    const { layers } = await estimateBatchNorm(model, [whole], {
      mode: 'device0',
      momentum: 1,
      devices: ['cpu:0', 'cpu:1'],
    });
    expect(layers[0]!.count).toBe(4 * 16);
  });

  it('are named when one fails', async () => {
    const nodes = [
      { op: 'Reshape', inputs: ['x', 'two'], outputs: ['r'], name: 'reshape' },
      normNode('bn', 'r', 'y'),
    ];
    const failing = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 4] }],
      outputs: [{ name: 'y', dims: ['n', 3, 4] }],
      nodes,
      initializers: { ...normWeights('bn', 3), two: { dims: [3], values: [2, 3, 4], elemType: 'int64' } },
    });
    for (const mode of ['adabn', 'synced'] as const) {
      const run = (devices: readonly ('cpu:0' | 'cpu:1')[]) =>
        estimateBatchNorm(failing, [rows([3, 3, 4])], { mode, devices });
      await expect(run(['cpu:0', 'cpu:1'])).rejects.toMatchObject({
        code: 'REPLICA_FAILED',
        details: { replica: 1, device: 'cpu:1' },
        cause: { code: 'RUN_FAILED' },
      });
      await expect(run(['cpu:0'])).rejects.toMatchObject({ code: 'RUN_FAILED' });
    }
  });
});

describe('what torch refuses', () => {
  it.each(TRAINING)('one value per channel in mode %s', async (mode) => {
    await expect(estimateBatchNorm(twoNorms(['n', 3]), [rows([1, 3])], { mode })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      message: expect.stringMatching(/more than one value per channel, as "bn1"/),
    });
  });

  it('is allowed under the statistics of the model, and for one row with positions', async () => {
    const { layers } = await estimateBatchNorm(twoNorms(['n', 3]), [rows([1, 3])], { mode: 'adabn' });
    expect([...layers[0]!.variance]).toEqual([0, 0, 0]);
    const one = await estimateBatchNorm(twoNorms(['n', 3, 5]), [rows([1, 3, 5])], {
      mode: 'synced',
      momentum: 1,
    });
    expect(one.layers[0]!.count).toBe(5);
  });
});

describe('sources', () => {
  const model = twoNorms(['n', 3, 4]);

  it.each(MODES)('without rows are refused in mode %s', async (mode) => {
    for (const source of [[], [rows([0, 3, 4])]])
      await expect(estimateBatchNorm(model, source, { mode })).rejects.toMatchObject({
        code: 'SOURCE_INVALID',
      });
  });

  it('may be asynchronous, with feeds by name, and their errors are passed on', async () => {
    async function* stream(fails: boolean): AsyncGenerator<{ x: TensorLike }> {
      yield { x: rows([2, 3, 4]) };
      yield { x: rows([3, 3, 4], 1) };
      if (fails) throw new Error('the disk is gone');
    }
    const { layers } = await estimateBatchNorm(model, stream(false), { mode: 'adabn' });
    expectNear(layers[0]!.mean, momentsOf([rows([2, 3, 4]), rows([3, 3, 4], 1)]).mean);
    for (const mode of MODES)
      await expect(estimateBatchNorm(model, stream(true), { mode })).rejects.toThrow('the disk is gone');
  });

  it('that give NaN, other dims, or a tensor that is not in a list are refused', async () => {
    const broken = rows([2, 3, 4]);
    broken.data[5] = NaN;
    await expect(estimateBatchNorm(model, [broken], { mode: 'adabn' })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
    await expect(estimateBatchNorm(model, [rows([2, 4, 4])], { mode: 'synced' })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
    await expect(
      estimateBatchNorm(model, rows([2, 3, 4]) as never, { mode: 'synced' }),
    ).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it.each(MODES)('stop when the signal fires: %s', async (mode) => {
    const stop = new AbortController();
    async function* endless(): AsyncGenerator<TensorLike> {
      for (let i = 0; ; i++) {
        if (i === 3) stop.abort(new Error('enough'));
        yield rows([2, 3, 4], i);
      }
    }
    await expect(estimateBatchNorm(model, endless(), { mode, signal: stop.signal })).rejects.toThrow(
      'enough',
    );
  });

  it('that do not fit into memory between two norms are refused in mode adabn-sequential, and cut into groups in synced', async () => {
    const batches = [0, 1, 2, 3].map((seed) => rows([4, 3, 4], seed));
    await expect(
      estimateBatchNorm(model, batches, { mode: 'adabn-sequential', memoryBytes: 500 }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'memoryBytes' } });
    const grouped = await estimateBatchNorm(model, batches, { mode: 'synced', memoryBytes: 500 });
    const together = await estimateBatchNorm(model, batches, { mode: 'synced' });
    expect(grouped.layers).toEqual(together.layers);
  });
});

describe('a fixed batch', () => {
  const model = twoNorms([2, 3, 4]);
  const four = rows([4, 3, 4]);

  it('runs in pieces, where their moments are combined', async () => {
    for (const mode of ['adabn', 'synced', 'adabn-sequential'] as const) {
      const { layers } = await estimateBatchNorm(
        model,
        [four],
        mode === 'synced' ? { mode, momentum: 1 } : { mode },
      );
      expectNear(layers[0]!.mean, momentsOf([four]).mean);
    }
    const { layers } = await estimateBatchNorm(model, [four], {
      mode: 'precise',
      devices: ['cpu:0', 'cpu:1'],
    });
    expectNear(layers[0]!.mean, momentsOf([four]).mean);
  });

  it('is refused, where rows of several pieces belong together', async () => {
    for (const mode of ['momentum', 'device0', 'precise'] as const)
      await expect(estimateBatchNorm(model, [four], { mode })).rejects.toMatchObject({
        code: 'BATCH_FIXED',
        details: { batch: 2, rows: 4 },
      });
  });
});

describe('graphs', () => {
  it('may share statistics between norms: they are split', async () => {
    const shared = {
      ...normNode('bn2', 'b', 'y'),
      inputs: ['b', 'bn1.weight', 'bn1.bias', 'bn1.running_mean', 'bn1.running_var'],
    };
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2, 3] }],
      outputs: [{ name: 'y', dims: ['n', 2, 3] }],
      nodes: [normNode('bn1', 'x', 'a'), { op: 'Relu', inputs: ['a'], outputs: ['b'], name: 'relu' }, shared],
      initializers: normWeights('bn1', 2),
    });
    const { model, layers } = await estimateBatchNorm(bytes, [rows([4, 2, 3])], { mode: 'adabn' });
    const again = await estimateBatchNorm(model, [rows([4, 2, 3])], { mode: 'momentum', momentum: 0 });
    // A weight of 0 leaves what the model holds now.
    for (const [i, { mean }] of again.layers.entries()) expectNear(mean, [...layers[i]!.mean], 1e-7);
    expect(layers[0]!.mean).not.toEqual(layers[1]!.mean);
  });

  it('may compute scale and shift, also after other norms, and have branches', async () => {
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2, 3] }],
      outputs: [{ name: 'y', dims: ['n', 2, 3] }],
      nodes: [
        normNode('left', 'x', 'a'),
        normNode('right', 'x', 'b'),
        {
          op: 'ReduceMean',
          inputs: ['a'],
          outputs: ['scale'],
          name: 'mean',
          ints: { axes: [0, 2], keepdims: 0 },
        },
        {
          ...normNode('last', 'b', 'c'),
          inputs: ['b', 'scale', 'left.bias', 'left.running_mean', 'left.running_var'],
        },
        { op: 'Add', inputs: ['c', 'x'], outputs: ['d'], name: 'add' },
        normNode('end', 'd', 'y'),
      ],
      initializers: { ...normWeights('left', 2), ...normWeights('right', 2), ...normWeights('end', 2) },
    });
    const batch = rows([6, 2, 3]);
    const staged = await estimateBatchNorm(bytes, [batch], { mode: 'synced', momentum: 1 });
    const whole = await estimateBatchNorm(bytes, [batch], { mode: 'momentum', momentum: 1 });
    expect(staged.layers.map(({ name }) => name)).toEqual(['left', 'right', 'last', 'end']);
    for (const [i, { mean, variance }] of staged.layers.entries()) {
      expectNear(mean, [...whole.layers[i]!.mean], 1e-6);
      expectNear(variance, [...whole.layers[i]!.variance], 1e-6);
    }
    const extractor = await createFeatureExtractor(staged.model, ['y']);
    const { y } = await extractor.run(batch);
    await extractor.close();
    // Normalised by its own statistics, except for n / (n − 1) in the variance.
    expectNear(Float64Array.from(momentsOf([y as typeof batch]).mean), [0, -0.25], 1e-5);
  });

  it('without norms, and with norms in training mode, are refused', async () => {
    await expect(estimateBatchNorm(negModel(), [], { mode: 'adabn' })).rejects.toMatchObject({
      code: 'NORMS_UNAVAILABLE',
      details: { layers: [] },
    });
    const training = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2, 3] }],
      outputs: [{ name: 'y', dims: ['n', 2, 3] }],
      nodes: [{ ...normNode('bn', 'x', 'y'), outputs: ['y', 'm', 'v'], ints: { training_mode: 1 } }],
      initializers: normWeights('bn', 2),
    });
    await expect(estimateBatchNorm(training, [], { mode: 'adabn' })).rejects.toMatchObject({
      code: 'NORMS_UNAVAILABLE',
      details: { layers: ['bn'] },
    });
  });

  it('keep all bytes but the statistics', async () => {
    const before = twoNorms(['n', 3, 4]);
    const copy = before.slice();
    const { model } = await estimateBatchNorm(before, [rows([4, 3, 4])], { mode: 'adabn' });
    expect(before).toEqual(copy);
    const opened = await openModel(before);
    const exact = await Promise.all(opened.parameters().map((one) => one.read()));
    expect(await Promise.all(model.parameters().map((one) => one.read()))).toEqual(exact);
    expect(model.nodes).toEqual(opened.nodes);
  });
});

describe('options', () => {
  const model = twoNorms(['n', 3, 4]);
  it.each([
    [{}, 'mode'],
    [{ mode: 'eval' }, 'mode'],
    [{ mode: 'synced', momentum: 1.5 }, 'momentum'],
    [{ mode: 'adabn', momentum: 0.1 }, 'momentum'],
    [{ mode: 'adabn', devices: [] }, 'devices'],
    [{ mode: 'adabn', split: 'dynamic' }, 'split'],
    [{ mode: 'adabn', memoryBytes: 0 }, 'memoryBytes'],
    [{ mode: 'adabn', reference: new Map() }, 'reference'],
    [{ mode: 'adabn', state: {} }, 'state'],
    [{ mode: 'adabn', prefix: '' }, 'prefix'],
    [{ mode: 'adabn', epsilon: 2 }, 'epsilon'],
    [{ mode: 'adabn', batch: 0 }, 'batch'],
    [{ mode: 'adabn', modes: 1 }, 'modes'],
  ])('%j is refused by name', async (options, option) => {
    await expect(estimateBatchNorm(model, [], options as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option },
    });
  });
});
