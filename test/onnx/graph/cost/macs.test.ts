/** Counts by hand for every rule. */
import { describe, expect, it } from 'vitest';
import { nodeMacs } from '../../../../src/onnx/graph/cost/macs.js';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import type { Attribute } from '../../../../src/onnx/file/scan/attributes.js';
import { modelBytes } from '../../../support/graphs.js';

interface Case {
  readonly op: string;
  readonly domain?: string;
  /** The sizes of the inputs in order; null for an absent one. */
  readonly inputs: readonly (readonly number[] | null)[];
  readonly output?: readonly number[];
  readonly ints?: Readonly<Record<string, number>>;
  readonly equation?: string;
}

async function count({ op, domain = '', inputs, output, ints = {}, equation }: Case): Promise<unknown> {
  const names = inputs.map((dims, i) => (dims ? `x${i}` : ''));
  const bytes = modelBytes({
    inputs: names.filter((name) => name !== ''),
    outputs: ['y'],
    nodes: [{ op, domain, inputs: names, outputs: ['y'], ints }],
  });
  const { graph } = modelInternals.of(await openModel(bytes));
  const sizes = new Map(names.map((name, i) => [name, inputs[i]!]));
  const attribute: Attribute = {
    int: undefined,
    float: undefined,
    ints: [],
    text: undefined,
    tensor: undefined,
  };
  const attributes = new Map(Object.entries(ints).map(([name, int]) => [name, { ...attribute, int }]));
  if (equation !== undefined) attributes.set('equation', { ...attribute, text: equation } as never);
  return nodeMacs(graph, graph.nodes[0]!, {
    dimsOf: ({ name }) => (name === 'y' ? output : sizes.get(name)),
    attributesOf: () => attributes,
  });
}

const ms = 'com.microsoft';

describe('nodeMacs', () => {
  it.each<[string, Case, number]>([
    [
      'a convolution',
      { op: 'Conv', inputs: [[2, 3, 8, 8], [4, 3, 3, 3], [4]], output: [2, 4, 6, 6] },
      2 * 4 * 36 * 27,
    ],
    [
      'a depthwise convolution',
      {
        op: 'Conv',
        inputs: [
          [1, 4, 8, 8],
          [4, 1, 3, 3],
        ],
        output: [1, 4, 6, 6],
        ints: { group: 4 },
      },
      4 * 36 * 9,
    ],
    [
      'a convolution along one axis',
      {
        op: 'Conv',
        inputs: [
          [1, 2, 9],
          [5, 2, 3],
        ],
        output: [1, 5, 7],
      },
      5 * 7 * 6,
    ],
    [
      'a transposed convolution with groups',
      {
        op: 'ConvTranspose',
        inputs: [
          [1, 4, 5, 5],
          [4, 3, 2, 2],
        ],
        output: [1, 6, 10, 10],
        ints: { group: 2 },
      },
      100 * 12,
    ],
    [
      'a quantised convolution',
      {
        op: 'QLinearConv',
        inputs: [[1, 3, 8, 8], [], [], [4, 3, 3, 3], [], [], [], []],
        output: [1, 4, 6, 6],
      },
      4 * 36 * 27,
    ],
    [
      'an integer convolution',
      {
        op: 'ConvInteger',
        inputs: [
          [1, 3, 8, 8],
          [4, 3, 3, 3],
        ],
        output: [1, 4, 6, 6],
      },
      4 * 36 * 27,
    ],
    [
      'Gemm',
      {
        op: 'Gemm',
        inputs: [
          [2, 3],
          [3, 5],
        ],
        output: [2, 5],
      },
      30,
    ],
    [
      'Gemm with both factors turned',
      {
        op: 'Gemm',
        inputs: [
          [3, 2],
          [5, 3],
        ],
        output: [2, 5],
        ints: { transA: 1, transB: 1 },
      },
      30,
    ],
    [
      'MatMul that broadcasts',
      {
        op: 'MatMul',
        inputs: [
          [7, 1, 2, 3],
          [4, 3, 5],
        ],
        output: [7, 4, 2, 5],
      },
      840,
    ],
    ['the product of two vectors', { op: 'MatMul', inputs: [[6], [6]], output: [] }, 6],
    [
      'QLinearMatMul',
      { op: 'QLinearMatMul', inputs: [[2, 3], [], [], [3, 5], [], [], [], []], output: [2, 5] },
      30,
    ],
    [
      'MatMulInteger',
      {
        op: 'MatMulInteger',
        inputs: [
          [2, 3],
          [3, 5],
        ],
        output: [2, 5],
      },
      30,
    ],
    [
      'FusedMatMul with a turned factor',
      {
        op: 'FusedMatMul',
        domain: ms,
        inputs: [
          [4, 3, 2],
          [4, 3, 5],
        ],
        output: [4, 2, 5],
        ints: { transA: 1 },
      },
      120,
    ],
    [
      'FusedMatMul with a batch in the middle',
      {
        op: 'FusedMatMul',
        domain: ms,
        inputs: [
          [3, 4, 2],
          [4, 3, 5],
        ],
        output: [4, 2, 5],
        ints: { transA: 1, transBatchA: 1 },
      },
      120,
    ],
    ['QGemm', { op: 'QGemm', domain: ms, inputs: [[2, 3], [], [], [3, 5]], output: [2, 5] }, 30],
    [
      'attention without a heads axis',
      {
        op: 'Attention',
        inputs: [
          [2, 5, 8],
          [2, 7, 8],
          [2, 7, 12],
        ],
        output: [2, 5, 12],
      },
      2 * 5 * 7 * (8 + 12),
    ],
    [
      'attention with heads, few of them for keys, and a past',
      {
        op: 'Attention',
        inputs: [[2, 4, 5, 8], [2, 2, 7, 8], [2, 2, 7, 8], null, [2, 2, 3, 8], [2, 2, 3, 8]],
        output: [2, 4, 5, 8],
      },
      2 * 4 * 5 * 10 * 16,
    ],
    [
      'MultiHeadAttention',
      {
        op: 'MultiHeadAttention',
        domain: ms,
        inputs: [
          [2, 5, 8],
          [2, 7, 8],
          [2, 7, 12],
        ],
        output: [2, 5, 12],
      },
      2 * 5 * 7 * 20,
    ],
    [
      'MultiHeadAttention of packed queries, keys and values',
      { op: 'MultiHeadAttention', domain: ms, inputs: [[2, 5, 4, 3, 8]], output: [2, 5, 32] },
      2 * 5 * 5 * 64,
    ],
    [
      'MultiHeadAttention of packed keys and values',
      {
        op: 'MultiHeadAttention',
        domain: ms,
        inputs: [
          [2, 5, 32],
          [2, 7, 4, 2, 8],
        ],
        output: [2, 5, 32],
      },
      2 * 5 * 7 * 64,
    ],
    [
      'attention that projects',
      { op: 'Attention', domain: ms, inputs: [[2, 5, 16], [16, 24], [24]], output: [2, 5, 8] },
      10 * 16 * 24 + 2 * 5 * 5 * 16,
    ],
    [
      'quantised attention',
      { op: 'QAttention', domain: ms, inputs: [[2, 5, 16], [16, 24], [24], [], []], output: [2, 5, 8] },
      10 * 16 * 24 + 2 * 5 * 5 * 16,
    ],
    [
      'an LSTM in both directions',
      {
        op: 'LSTM',
        inputs: [
          [6, 2, 3],
          [2, 16, 3],
          [2, 16, 4],
        ],
        output: [6, 2, 2, 4],
      },
      12 * (2 * 16 * 3 + 2 * 16 * 4),
    ],
    [
      'Einsum as a batched product',
      {
        op: 'Einsum',
        inputs: [
          [2, 3, 4, 5],
          [2, 3, 6, 5],
        ],
        equation: 'bhid, bhjd -> bhij',
      },
      2 * 3 * 4 * 6 * 5,
    ],
    [
      'Einsum with an ellipsis that broadcasts',
      {
        op: 'Einsum',
        inputs: [
          [2, 1, 4, 5],
          [3, 5, 6],
        ],
        equation: '...ij,...jk->...ik',
      },
      2 * 3 * 4 * 5 * 6,
    ],
    ['Einsum of one tensor', { op: 'Einsum', inputs: [[2, 3]], equation: 'ij->ji' }, 0],
    [
      'an addition',
      {
        op: 'Add',
        inputs: [
          [2, 3],
          [2, 3],
        ],
        output: [2, 3],
      },
      0,
    ],
    ['a norm of unknown sizes', { op: 'LayerNormalization', inputs: [[2, 3], [3]] }, 0],
    ['an added part of ONNX Runtime', { op: 'SkipLayerNormalization', domain: ms, inputs: [[2, 3]] }, 0],
  ])('counts %s', async (_, given, expected) => {
    expect(await count(given)).toBe(expected);
  });

  it.each<[string, Case]>([
    ['an operator of another domain', { op: 'Conv', domain: 'my.ops', inputs: [[1]], output: [1] }],
    ['an operator that ONNX may get one day', { op: 'Convolve', inputs: [[1]], output: [1] }],
    ['an operator with a name of JavaScript', { op: 'constructor', inputs: [[1]], output: [1] }],
    ['a product of the wrong rank', { op: 'Attention', domain: ms, inputs: [[2], [3]], output: [1] }],
    ['control flow', { op: 'Loop', inputs: [[1]], output: [1] }],
    ['a Fourier transform', { op: 'DFT', inputs: [[1, 8, 1]], output: [1, 8, 2] }],
    [
      'a product of unknown sizes',
      {
        op: 'MatMul',
        inputs: [
          [2, 3],
          [3, 5],
        ],
      },
    ],
    ['Einsum of three tensors', { op: 'Einsum', inputs: [[2], [2], [2]], equation: 'i,i,i->i' }],
  ])('does not count %s', async (_, given) => {
    expect(await count(given)).toBeUndefined();
  });
});
