/** Where patches are among tokens, by the operators that moved, cut and pooled them. */
import { describe, expect, it } from 'vitest';
import { modelInternals } from '../../../src/run/model/open/model-state.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { placesOf } from '../../../src/run/model/prune/model-tokens.js';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../support/graphs.js';

const list = (values: readonly number[]): WeightSpec => ({
  dims: [values.length],
  values,
  elemType: 'int64',
});
const LISTS: Readonly<Record<string, WeightSpec>> = {
  flat: list([0, 2, -1]),
  rows: list([-1, 4, 4, 2]),
  split: list([0, 2, 2, 2, 2, 2]),
  tokens: list([-1, 16, 2]),
  fours: list([-1, 4, 4, 2]),
  one: list([1]),
  two: list([2]),
  from: list([1]),
  to: list([2 ** 31 - 1]),
  zero: list([0]),
};
const node = (op: string, inputs: readonly string[], output: string, ints = {}): NodeSpec => ({
  op,
  inputs,
  outputs: [output],
  ints,
});

/** Patches of 4 × 4 pixels of an image of 16 × 16, as tokens `patches`, `[n, 16, 2]`. */
const PATCHES = [
  node('Conv', ['x', 'w'], 'map', { kernel_shape: [4, 4], strides: [4, 4] }),
  node('Reshape', ['map', 'flat'], 'flattened'),
  node('Transpose', ['flattened'], 'patches', { perm: [0, 2, 1] }),
];

/** The order of mask units: the four places of a unit stand 4 tokens apart, as Hiera's. */
const UNROLLED = [
  node('Reshape', ['patches', 'rows'], 'grid'),
  node('Reshape', ['grid', 'split'], 'units'),
  node('Transpose', ['units'], 'turned', { perm: [0, 2, 4, 1, 3, 5] }),
  node('Reshape', ['turned', 'tokens'], 'unrolled'),
];

/** The places of the last value. */
async function find(...nodes: readonly NodeSpec[]) {
  const spec = {
    inputs: [
      { name: 'x', dims: ['n', 3, 16, 16] },
      { name: 'i', dims: [16], elemType: ELEMENT_TYPE.int64 },
    ],
    outputs: [{ name: nodes.at(-1)!.outputs[0]!, dims: ['n', 'l', 2] }],
    nodes: [...PATCHES, ...nodes],
    initializers: {
      w: { dims: [2, 3, 4, 4], values: Array<number>(96).fill(1) },
      b: { dims: [2, 2], values: [1, 2, 3, 4] },
      learned: { dims: [1, 3, 2], values: [1, 2, 3, 4, 5, 6] },
      ...LISTS,
    },
  };
  const model = await openModel(modelBytes(spec));
  return placesOf(model, modelInternals.of(model).graph.outputs[0]!);
}

const sixteen = Array.from({ length: 16 }, (_, i) => i);

describe('the patches of tokens', () => {
  it('stand in rows behind a convolution, and behind what keeps them', async () => {
    const found = await find(
      node('MatMul', ['patches', 'b'], 'm'),
      node('Softmax', ['m'], 's'),
      node('Add', ['s', 'patches'], 'y'),
    );
    expect(found).toEqual({ size: [4, 4], count: 16, tokens: sixteen });
  });

  it('are found in the order of mask units, and in rows behind their pooling', async () => {
    const unrolled = await find(...UNROLLED);
    // The patch in row 1, column 2 is the lower left one of the unit in row 0, column 1.
    expect(unrolled).toMatchObject({ size: [4, 4], tokens: expect.arrayContaining(sixteen) });
    expect((unrolled as { readonly tokens: readonly number[] }).tokens[6]).toBe(2 * 4 + 1);
    const pooled = await find(
      ...UNROLLED,
      node('Reshape', ['unrolled', 'fours'], 'f'),
      node('ReduceMax', ['f'], 'y', { axes: [1], keepdims: 0 }),
    );
    expect(pooled).toEqual({ size: [2, 2], count: 4, tokens: [0, 1, 2, 3] });
  });

  it('are found where rows and columns changed places, and where tokens were rolled', async () => {
    const turned = await find(
      node('Reshape', ['patches', 'rows'], 'g'),
      node('Transpose', ['g'], 't', { perm: [0, 2, 1, 3] }),
      node('Reshape', ['t', 'tokens'], 'y'),
    );
    expect(turned).toMatchObject({ tokens: [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15] });
    const rolled = await find(
      node('Slice', ['patches', 'from', 'to', 'one'], 'a'),
      node('Slice', ['patches', 'zero', 'from', 'one'], 'z'),
      node('Concat', ['a', 'z'], 'y', { axis: 1 }),
    );
    expect(rolled).toMatchObject({ tokens: [15, ...sixteen.slice(0, -1)] });
  });

  it('stand between learned tokens', async () => {
    const found = await find(node('Concat', ['learned', 'patches', 'learned'], 'y', { axis: 1 }));
    expect(found).toEqual({ size: [4, 4], count: 22, tokens: sixteen.map((i) => i + 3) });
  });

  it.each([
    ['an order that is fed', [node('Gather', ['patches', 'i'], 'y', { axis: 1 })]],
    ['two orders that are added', [...UNROLLED, node('Add', ['unrolled', 'patches'], 'y')]],
    ['places that were cut away', [node('Slice', ['patches', 'from', 'to', 'one'], 'y')]],
    ['an order that attention hides', [...UNROLLED, node('MatMul', ['unrolled', 'turned'], 'y')]],
  ])('are not known behind %s', async (_, nodes) => {
    expect(await find(...nodes)).toBe('moved');
  });

  it('are not told behind attention alone', async () => {
    expect(await find(node('MatMul', ['patches', 'patches'], 'y'))).toBeNull();
  });
});
