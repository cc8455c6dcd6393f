/** Sizes for open axes: found where the graph allows only some, given by the caller, and said in either case. */
import { openModel, pruneModel, verifyModel, type VerifyReport } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

const wave = (dims: readonly number[]): WeightSpec => ({
  dims,
  values: Array.from({ length: dims.reduce((total, size) => total * size, 1) }, (_, i) => Math.sin(i) / 9),
});
const shape = (...values: number[]): WeightSpec => ({ dims: [values.length], values, elemType: 'int64' });
const net = (
  dims: readonly (number | string)[],
  nodes: readonly NodeSpec[],
  initializers: Readonly<Record<string, WeightSpec>>,
): Uint8Array => modelBytes({ inputs: [{ name: 'x', dims }], outputs: ['y'], nodes, initializers });
/** A patch embedding of 4 × 4 pixels and 8 channels, as tokens `[n, L, 8]`. */
const patches: readonly NodeSpec[] = [
  { op: 'Conv', inputs: ['x', 'w'], outputs: ['c'], ints: { kernel_shape: [4, 4], strides: [4, 4] } },
  { op: 'Reshape', inputs: ['c', 'rows'], outputs: ['r'] },
  { op: 'Transpose', inputs: ['r'], outputs: ['t'], ints: { perm: [0, 2, 1] } },
];
const patchWeights = { w: wave([8, 3, 4, 4]), rows: shape(0, 8, -1) };
const verify = async (model: Uint8Array, options = {}): Promise<VerifyReport> =>
  verifyModel(await pruneModel(model, ['y'], options));

describe('verifyModel finds sizes', () => {
  const stem: NodeSpec = {
    op: 'Conv',
    inputs: ['x', 'w'],
    outputs: ['c'],
    ints: { kernel_shape: [3, 3], strides: [2, 2] },
  };
  const pool: NodeSpec = { op: 'AveragePool', inputs: ['c'], outputs: ['p'], ints: { kernel_shape: [5, 5] } };

  it.each<[string, Uint8Array, number[] | RegExp]>([
    [
      'for a linear layer after a flattened map, which takes 48 pixels',
      net(
        ['n', 3, 'h', 'w'],
        [
          stem,
          { op: 'Flatten', inputs: ['c'], outputs: ['f'] },
          { op: 'Gemm', inputs: ['f', 'fc'], outputs: ['y'] },
        ],
        { w: wave([2, 3, 3, 3]), fc: wave([2 * 23 * 23, 4]) },
      ),
      /^2,3,4[78],4[78]$/,
    ],
    [
      'for a Reshape to fixed sizes',
      net(['n', 3, 'h', 'w'], [stem, { op: 'Reshape', inputs: ['c', 's'], outputs: ['y'] }], {
        w: wave([2, 3, 3, 3]),
        s: shape(0, 2, 31 * 31),
      }),
      /^2,3,6[34],6[34]$/,
    ],
    [
      'for channels last and a window that needs 12 pixels',
      net(
        ['n', 'h', 'w', 3],
        [
          { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [0, 3, 1, 2] } },
          { ...stem, inputs: ['t', 'w'] },
          { ...pool, outputs: ['y'] },
        ],
        { w: wave([2, 3, 3, 3]) },
      ),
      [2, 224, 224, 3],
    ],
    [
      'for position embeddings',
      net(['n', 3, 'h', 'w'], [...patches, { op: 'Add', name: 'add', inputs: ['t', 'e'], outputs: ['y'] }], {
        ...patchWeights,
        e: wave([1, 36, 8]),
      }),
      /^2,3,2[4-7],2[4-7]$/,
    ],
    [
      'for position embeddings of an oblong grid',
      net(['n', 3, 'h', 'w'], [...patches, { op: 'Add', name: 'add', inputs: ['t', 'e'], outputs: ['y'] }], {
        ...patchWeights,
        e: wave([1, 8 * 37, 8]),
      }),
      /^2,3,32,1(4[89]|5[01])$/,
    ],
    [
      'for open channels',
      net(['n', 'c', 'h', 'w'], [{ ...stem, outputs: ['y'] }], { w: wave([2, 5, 3, 3]) }),
      [2, 5, 224, 224],
    ],
    [
      'for channels last that no size shows',
      net(
        ['n', 'h', 'w', 'c'],
        [
          { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [0, 3, 1, 2] } },
          { ...stem, inputs: ['t', 'w'], outputs: ['y'] },
        ],
        { w: wave([2, 3, 3, 3]) },
      ),
      [2, 224, 224, 3],
    ],
    [
      'for a vector',
      net(['n', 'k'], [{ op: 'Gemm', inputs: ['x', 'fc'], outputs: ['y'] }], { fc: wave([77, 4]) }),
      [2, 77],
    ],
    [
      'for a graph of one row',
      net(['n', 6], [{ op: 'Reshape', inputs: ['x', 's'], outputs: ['y'] }], { s: shape(2, 3) }),
      [1, 6],
    ],
  ])('%s', async (_, model, dims) => {
    const { inputs, isEqual } = await verify(model);
    expect(isEqual).toBe(true);
    if (dims instanceof RegExp) expect(inputs[0]?.dims.join(',')).toMatch(dims);
    else expect(inputs[0]?.dims).toEqual(dims);
  });

  it('takes those of the caller, and says which it made up', async () => {
    const model = net(['n', 3, 'h', 'w'], [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }], {});
    const sizesOf = async (inputSizes: object | number): Promise<unknown> =>
      (await verify(model, { inputSizes })).inputs;
    expect(await sizesOf(48)).toEqual([{ name: 'x', dims: [2, 3, 48, 48], madeUp: [] }]);
    expect(await sizesOf({ h: 48 })).toEqual([{ name: 'x', dims: [2, 3, 48, 224], madeUp: [3] }]);
    expect(await sizesOf({ x: [1, 3, 48, 320] })).toEqual([{ name: 'x', dims: [1, 3, 48, 320], madeUp: [] }]);
    const pruned = await pruneModel(model, ['y'], { inputSizes: 48 });
    expect((await verifyModel(pruned, { inputSizes: { w: 9 } })).inputs[0]?.dims).toEqual([2, 3, 224, 9]);
    for (const inputSizes of [{ height: 48 }, { x: [1, 3, 48] }, { x: [1, 4, 48, 48] }, { h: 0 }, []])
      // oxlint-disable-next-line no-await-in-loop -- one refusal at a time
      await expect(sizesOf(inputSizes)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('says what was tried where nothing works', async () => {
    const model = net(['n', 'k'], [{ op: 'Gather', name: 'pick', inputs: ['x', 'i'], outputs: ['y'] }], {
      i: shape(7000),
    });
    await expect(verify(model)).rejects.toMatchObject({
      code: 'RUN_FAILED',
      message: expect.stringMatching(
        /does not run on made-up inputs \(x \[2, 8\]; .*\): Gather "pick": indices element out of data bounds.*; give sizes that it takes .*--input-shape/,
      ),
    });
  });
});

describe('other questions take the same sizes', () => {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: [2, 'k'] }],
    outputs: ['y'],
    nodes: [
      { op: 'Gemm', inputs: ['x', 'fc'], outputs: ['g'] },
      { op: 'Reshape', inputs: ['g', 's'], outputs: ['r'] },
      { op: 'ReduceSum', inputs: ['r'], outputs: ['y'], ints: { keepdims: 0 } },
    ],
    initializers: { fc: wave([48, 4]), s: shape(-1) },
  };

  it('a scalar is told from an unknown rank', async () => {
    const model = modelBytes({ ...spec, outputs: ['r'] });
    const pruned = await pruneModel(model, ['tensor:y'], { fillTypes: true });
    expect((await openModel(await pruned.bytes())).outputs[0]?.dims).toEqual([]);
  });

  it('a fixed batch is opened', async () => {
    const model = modelBytes({
      ...spec,
      outputs: ['g'],
      nodes: spec.nodes.slice(0, 1),
    });
    const { plan } = await pruneModel(model, ['g'], { batch: 'dynamic' });
    expect(plan.batch).toMatchObject({ mode: 'dynamic', exported: 2 });
    expect(plan.notes.join()).toContain('"x" of dims [6, 48]; sizes that the file leaves open were made up');
  });
});
