import { describe, expect, it } from 'vitest';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { readAttributes } from '../../../../src/onnx/file/scan/attributes.js';
import { readIntegers } from '../../../../src/onnx/graph/read-constants.js';
import { WireReader } from '../../../../src/onnx/file/wire/wire.js';
import { flattenAxis, listReshapedAxes } from '../../../../src/onnx/graph/batch/batch-axis.js';
import { withDynamicBatch, type BatchResult } from '../../../../src/onnx/graph/batch/dynamic-batch.js';
import { cutGraph } from '../../../../src/onnx/graph/rewrite/prune.js';
import { startRewrite, type Rewrite } from '../../../../src/onnx/graph/rewrite/rewrite.js';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

type Sizes = Readonly<Record<string, readonly number[]>>;

/** Opens the batch of a graph whose tensors have the given sizes: inputs `x…`, output `y`. */
async function open(
  sizes: Sizes,
  nodes: readonly NodeSpec[],
  initializers: Readonly<Record<string, WeightSpec>> = {},
  opset = 17,
): Promise<BatchResult> {
  const inputs = Object.keys(sizes).filter((name) => name.startsWith('x'));
  const spec: GraphSpec = {
    inputs: inputs.map((name) => ({ name, dims: sizes[name]! })),
    outputs: [{ name: 'y', dims: sizes['y']! }],
    nodes,
    initializers,
  };
  const { graph, withSource } = modelInternals.of(await openModel(modelBytes(spec, { opset })));
  const outputs = graph.outputs.map((value) => ({ request: value.name, key: value.name, value, why: '' }));
  const rewrite = startRewrite(cutGraph(graph, { outputs }));
  return withSource((source) => {
    const reader = new WireReader(source);
    return withDynamicBatch(rewrite, {
      dimsOf: (value) => sizes[value.name] ?? value.initializer?.dims,
      elemTypeOf: (value) => value.initializer?.elemType,
      integersOf: (value) => value.initializer && readIntegers(reader, value.initializer),
      attributesOf: (node) => readAttributes(reader, node.scanned),
    });
  });
}

function list(...values: number[]): WeightSpec {
  return { dims: [values.length], values, elemType: 'int64' };
}

function weight(...dims: number[]): WeightSpec {
  const length = dims.reduce((product, size) => product * size, 1);
  return { dims, values: Array.from({ length }, (_, i) => i) };
}

function rewriteOf(result: BatchResult): Rewrite {
  if ('reason' in result) throw new Error(result.reason);
  return result.rewrite;
}

function reasonOf(result: BatchResult): string {
  return 'reason' in result ? result.reason : '';
}

/** The operators in front of kept nodes, and in front of all. */
function addedTo(rewrite: Rewrite): string[] {
  return [...rewrite.front, ...[...rewrite.edits.values()].flatMap(({ before }) => before)].map(
    (node) => node.opType,
  );
}

/** The integers that an added tensor holds. */
function integersOf(rewrite: Rewrite, k = 0): number[] {
  const { data } = rewrite.tensors[k]!;
  return Array.from(new BigInt64Array(data.slice().buffer), Number);
}

const reshape = (target: readonly number[], sizes: Sizes, ints = {}): Promise<BatchResult> =>
  open(sizes, [{ op: 'Reshape', name: 'r', inputs: ['x', 's'], outputs: ['y'], ints }], {
    s: list(...target),
  });

describe('withDynamicBatch', () => {
  it('opens the inputs and outputs of a graph that holds no size', async () => {
    const result = await open({ x: [1, 3], y: [1, 3] }, [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }]);
    expect(result).toMatchObject({ batch: 1, changed: [] });
    const { restated, outputs } = rewriteOf(result);
    expect([...restated.values()].map(({ dims }) => dims)).toEqual([
      ['batch', 3],
      ['batch', 3],
    ]);
    expect(outputs[0]?.type?.dims).toEqual(['batch', 3]);
  });

  it('says that there is nothing to open, or no common batch', async () => {
    const relu: NodeSpec = { op: 'Relu', inputs: ['x'], outputs: ['y'] };
    expect(reasonOf(await open({ x: [3], y: [3] }, [relu]))).toBe('the batch is dynamic already');
    const two = await open({ x: [2, 3], x2: [4, 3], y: [4, 3] }, [
      { op: 'Concat', inputs: ['x', 'x2'], outputs: ['y'], ints: { axis: 0 } },
    ]);
    expect(reasonOf(two)).toContain('"x" is fed 2 rows, "x2" 4');
  });

  it.each([
    ['copies an axis that stays', [1, 6], { x: [1, 2, 3], y: [1, 6] }, [0, 6]],
    ['opens one that moves', [64, 49], { x: [1, 64, 49], y: [64, 49] }, [-1, 49]],
    ['writes down what was open', [4, -1], { x: [2, 2, 3], y: [4, 3] }, [-1, 3]],
    ['tells merged axes apart', [8, 5], { x: [4, 2, 5], y: [8, 5] }, [-1, 5]],
  ])('gives a Reshape another target: %s', async (_, target, sizes: Sizes, expected) => {
    const rewrite = rewriteOf(await reshape(target, sizes));
    expect(integersOf(rewrite)).toEqual(expected);
    expect([...rewrite.edits.values()][0]!.inputs.get(1)).toBe(rewrite.tensors[0]!.name);
  });

  it('leaves targets alone that hold for any batch', async () => {
    for (const target of [
      [0, 6],
      [-1, 6],
    ])
      expect(await reshape(target, { x: [1, 2, 3], y: [1, 6] })).toMatchObject({ changed: [] });
  });

  it('does not copy where a zero means zero', async () => {
    const rewrite = rewriteOf(await reshape([1, 6], { x: [1, 2, 3], y: [1, 6] }, { allowzero: 1 }));
    expect(integersOf(rewrite)).toEqual([-1, 6]);
  });

  it('repeats a class token by the batch', async () => {
    const result = await open(
      { x: [1, 4, 2], y: [1, 5, 2] },
      [{ op: 'Concat', inputs: ['token', 'x'], outputs: ['y'], ints: { axis: 1 } }],
      { token: weight(1, 1, 2) },
    );
    expect(addedTo(rewriteOf(result))).toEqual(['Shape', 'Slice', 'Concat', 'Tile']);
  });

  it('repeats the first of several baked rows, and leaves alone what broadcasts', async () => {
    const add = (rows: number): Promise<BatchResult> =>
      open({ x: [4, 2], y: [4, 2] }, [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }], {
        w: weight(rows, 2),
      });
    expect(addedTo(rewriteOf(await add(4)))).toEqual(['Shape', 'Slice', 'Slice', 'Concat', 'Tile']);
    expect(addedTo(rewriteOf(await add(1)))).toEqual([]);
  });

  it('follows windows with the batch outside and tokens with the batch inside', async () => {
    const result = await open(
      { x: [1, 6, 4], t: [6, 1, 4], f: [6, 4], m: [6, 4], w: [2, 3, 4], y: [2, 3, 4] },
      [
        { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [1, 0, 2] } },
        { op: 'Reshape', name: 'flat', inputs: ['t', 'flatShape'], outputs: ['f'] },
        { op: 'MatMul', inputs: ['f', 'k'], outputs: ['m'] },
        { op: 'Reshape', name: 'windows', inputs: ['x', 'windowShape'], outputs: ['w'] },
        { op: 'Softmax', inputs: ['w'], outputs: ['y'] },
      ],
      { k: weight(4, 4), flatShape: list(6, 4), windowShape: list(2, 3, 4) },
    );
    const { outputs, notes, restated } = rewriteOf(result);
    expect(notes).toEqual(['output "y" has 2 rows per sample']);
    expect(outputs[0]?.type?.dims).toEqual([null, 3, 4]);
    expect(restated.size).toBe(2);
  });

  it('trusts targets computed from sizes, but not their baked parts', async () => {
    const nodes = (first: string): NodeSpec[] => [
      { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
      { op: 'Gather', inputs: ['shape', 'zero'], outputs: ['rows'] },
      { op: 'Concat', inputs: [first, 'rest'], outputs: ['target'], ints: { axis: 0 } },
      { op: 'Reshape', inputs: ['x', 'target'], outputs: ['y'] },
    ];
    const sizes = { x: [2, 2, 3], y: [2, 6], shape: [3], rows: [1], target: [2] };
    const constants = { zero: list(0), rest: list(6), baked: list(2) };
    expect(await open(sizes, nodes('rows'), constants)).toMatchObject({ changed: [] });
    const inTarget = [
      { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
      { op: 'Slice', inputs: ['shape', 'one', 'two'], outputs: ['rows'] },
      { op: 'Mul', inputs: ['rows', 'three'], outputs: ['width'] },
      { op: 'Concat', inputs: ['baked', 'width'], outputs: ['target'], ints: { axis: 0 } },
      { op: 'Reshape', inputs: ['x', 'target'], outputs: ['y'] },
    ];
    const more = { ...constants, one: list(1), two: list(2), three: list(3) };
    const rewrite = rewriteOf(await open({ ...sizes, width: [1] }, inTarget, more));
    expect(addedTo(rewrite)).toEqual(['Slice', 'Concat']);
  });

  it('refuses limits that a larger batch would pass', async () => {
    const slice = (starts: number, ends: number): Promise<BatchResult> =>
      open({ x: [1, 3], y: [1, 3] }, [{ op: 'Slice', inputs: ['x', 'starts', 'ends'], outputs: ['y'] }], {
        starts: list(starts),
        ends: list(ends),
      });
    expect(reasonOf(await slice(0, 5))).toContain('takes a part of the batch');
    expect(reasonOf(await slice(-5, 2 ** 31 - 1))).toContain('takes a part of the batch');
    expect(await slice(0, 2 ** 31 - 1)).toMatchObject({ changed: [] });
    const limited = (op: string, limit: number): Promise<BatchResult> =>
      open(
        { x: [1, 3], y: [1, 3], shape: [2], rows: [1], least: [1] },
        [
          { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
          { op: 'Gather', inputs: ['shape', 'zero'], outputs: ['rows'] },
          { op, inputs: ['rows', 'limit'], outputs: ['least'] },
          { op: 'Slice', inputs: ['x', 'zero', 'least'], outputs: ['y'] },
        ],
        { zero: list(0), limit: list(limit) },
      );
    expect(reasonOf(await limited('Min', 5))).toContain('compares the batch with another size');
    expect(await limited('Max', 1)).toMatchObject({ changed: [] });
  });

  it('takes slices to the end, and expands a 1', async () => {
    const slice = await open(
      { x: [2, 3], y: [2, 2] },
      [{ op: 'Slice', inputs: ['x', 'starts', 'ends'], outputs: ['y'] }],
      { starts: list(0, 1), ends: list(2, 3) },
    );
    expect(integersOf(rewriteOf(slice))).toEqual([2 ** 31 - 1, 3]);
    const expanded = await open(
      { x: [2, 1], y: [2, 5] },
      [{ op: 'Expand', inputs: ['x', 's'], outputs: ['y'] }],
      { s: list(2, 5) },
    );
    expect(integersOf(rewriteOf(expanded))).toEqual([1, 5]);
  });

  it('repeats the initial state of a recurrent layer', async () => {
    const result = await open(
      { x: [5, 7, 4], t: [7, 5, 4], y: [7, 1, 5, 3] },
      [
        { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [1, 0, 2] } },
        { op: 'GRU', inputs: ['t', 'w', 'r', '', '', 'h'], outputs: ['y'], ints: { hidden_size: 3 } },
      ],
      { w: weight(1, 9, 4), r: weight(1, 9, 3), h: weight(1, 5, 3) },
    );
    const rewrite = rewriteOf(result);
    expect(addedTo(rewrite)).toContain('Tile');
    expect(rewrite.notes).toEqual(['output "y" holds the batch on axis 2']);
  });

  it.each<[string, Sizes, NodeSpec, Readonly<Record<string, WeightSpec>>, string]>([
    [
      'sums',
      { x: [2, 3], y: [1, 3] },
      { op: 'ReduceSum', inputs: ['x', 'a'], outputs: ['y'] },
      { a: list(0) },
      'across',
    ],
    [
      'sums of products',
      { x: [2, 3], y: [5, 3] },
      { op: 'MatMul', inputs: ['w', 'x'], outputs: ['y'] },
      { w: weight(5, 2) },
      'sums over the batch',
    ],
    [
      'single samples',
      { x: [2, 3], y: [1, 3] },
      { op: 'Gather', inputs: ['x', 'a'], outputs: ['y'] },
      { a: list(0) },
      'across',
    ],
    [
      'a softmax of samples',
      { x: [2, 3], y: [2, 3] },
      { op: 'Softmax', inputs: ['x'], outputs: ['y'], ints: { axis: 0 } },
      {},
      'across',
    ],
    [
      'a running product of samples',
      { x: [2, 3], y: [2, 3] },
      { op: 'CumProd', inputs: ['x', 'a'], outputs: ['y'] },
      { a: list(0) },
      'across',
    ],
    [
      'a triangle of samples',
      { x: [2, 3], y: [2, 3] },
      { op: 'Trilu', inputs: ['x'], outputs: ['y'] },
      {},
      'across',
    ],
    [
      'a transform of samples',
      { x: [2, 3, 1], y: [2, 3, 2] },
      { op: 'DFT', inputs: ['x'], outputs: ['y'], ints: { axis: 0 } },
      {},
      'across',
    ],
    [
      'another size',
      { x: [4, 3], y: [2, 6] },
      { op: 'Reshape', inputs: ['x', 'a'], outputs: ['y'] },
      { a: list(2, 6) },
      '[2, 6] of [4, 3]',
    ],
    [
      'unknown operators',
      { x: [4, 3], y: [3] },
      { op: 'Pick', domain: 'local', inputs: ['x'], outputs: ['y'] },
      {},
      'was not found',
    ],
    [
      'counts',
      { x: [4, 3], y: [2, 12] },
      { op: 'NonZero', inputs: ['x'], outputs: ['y'] },
      {},
      'mixes samples',
    ],
  ])('refuses %s', async (_, sizes, node, initializers, reason) => {
    expect(reasonOf(await open(sizes, [node], initializers))).toContain(reason);
  });
});

describe('listReshapedAxes', () => {
  it('finds at most one place for a batch of 2 and more', () => {
    const from = { axis: 1, outer: 1, inner: 12 };
    expect(listReshapedAxes(from, [50, 48, 64], [200, 768], 4)).toEqual([{ axis: 0, outer: 50, inner: 1 }]);
  });

  it('prefers a 1, then any axis but the last', () => {
    const from = { axis: 1, outer: 1, inner: 1 };
    const axes = (after: readonly number[]): number =>
      listReshapedAxes(from, [50, 1, 768], after, 1)[0]!.axis;
    expect(axes([50, 1, 12, 64])).toBe(1);
    expect(axes([50, 12, 64])).toBe(1);
    expect(axes([50, 768])).toBe(0);
  });
});

describe('flattenAxis', () => {
  it('counts what lies around the batch', () => {
    const from = { axis: 1, outer: 1, inner: 1 };
    expect(flattenAxis(from, [5, 2, 3, 4], 3)).toEqual({ axis: 0, outer: 5, inner: 3 });
    expect(flattenAxis(from, [5, 2, 3, 4], 1)).toEqual({ axis: 1, outer: 1, inner: 12 });
  });
});
