import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import { resolveNames } from '../../../../src/onnx/graph/names/resolve-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes, type NodeSpec } from '../../../support/graphs.js';

/** What a name gives in a chain of nodes: the tensor, or the code of the refusal. */
function readIn(nodes: readonly NodeSpec[], name: string): string {
  const initializers = {
    weight: [1],
    bias: [0],
    dims: { dims: [1], values: [3], elemType: 'int64' },
  } as const;
  const spec = { inputs: ['x'], outputs: nodes.at(-1)!.outputs, nodes, initializers };
  const graph = buildGraph(scanModel(memorySource(modelBytes(spec))));
  try {
    return resolveNames(graph, [name])[0]!.value.name;
  } catch (error) {
    if (isTapirError(error)) return error.code;
    throw error;
  }
}

describe('a Linear that an optimiser made a Gemm of rows', () => {
  const enter: NodeSpec = {
    op: 'Reshape',
    inputs: ['x', 'dims'],
    outputs: ['rows'],
    name: 'gemm_input_reshape',
  };
  const product: NodeSpec = { op: 'Gemm', inputs: ['rows', 'weight', 'bias'], outputs: ['rows_1'] };
  const leave: NodeSpec = { op: 'Reshape', inputs: ['rows_1', 'dims'], outputs: ['/fc/Add_output_0'] };

  it('has its value behind the Reshape that restores the dims', () => {
    const nodes = [enter, { ...product, name: '/fc/MatMul/MatMulAddFusion' }, leave];
    expect(readIn(nodes, 'fc')).toBe('/fc/Add_output_0');
  });

  it('is refused where the next Reshape is another one', () => {
    const next = { op: 'Reshape', inputs: ['rows_1', 'dims'], outputs: ['y'], name: 'new_reshape' };
    expect(readIn([enter, { ...product, name: '/fc/MatMul/MatMulAddFusion' }, next], 'fc')).toBe(
      'NAME_FOLDED',
    );
  });

  it('is refused by the name of the Reshape in front of it, and by that of the activation behind it', () => {
    const named = { ...enter, name: '/fc/MatMul_output_0_pre_reshape' };
    const act = { op: 'Relu', inputs: ['rows_1'], outputs: ['/act/Relu_output_0'], name: '/act/Relu' };
    const end = {
      op: 'Gemm',
      inputs: ['/act/Relu_output_0', 'weight', 'bias'],
      outputs: ['y'],
      name: 'Gemm_3',
    };
    expect(readIn([named, { ...product, name: 'Gemm_1' }, act, end], 'fc')).toBe('NAME_FOLDED');
    expect(readIn([named, { ...product, name: 'Gemm_1' }, act, end], 'act')).toBe('NAME_FOLDED');
  });

  it('is no Gemm that torch computes itself', () => {
    const flat = { ...enter, name: '/Flatten' };
    const act = { op: 'Relu', inputs: ['rows_1'], outputs: ['y'], name: '/act/Relu' };
    expect(readIn([flat, { ...product, name: '/fc/Gemm' }, act], 'fc')).toBe('rows_1');
    expect(readIn([flat, { ...product, name: '/fc/Gemm' }, act], 'act')).toBe('y');
  });
});

describe("ONNX Runtime's blocks of channels", () => {
  const domain = 'com.microsoft.nchwc';
  const blocked = (name: string, from: string, to: string): NodeSpec => ({
    op: 'Conv',
    domain,
    inputs: [from, 'weight', 'bias'],
    outputs: [to],
    name: `${name}_nchwc`,
  });
  const nodes: NodeSpec[] = [
    blocked('/0/Conv_output_0', 'x', 'reorder'),
    { op: 'ReorderOutput', domain, inputs: ['reorder'], outputs: ['/0/Conv_output_0'] },
    blocked('/2/Relu_output_0', '/0/Conv_output_0', 'reorder_1'),
    { op: 'Sigmoid', inputs: ['reorder_1'], outputs: ['/3/Sigmoid_output_0'], name: '/3/Sigmoid' },
    { op: 'ReorderOutput', domain, inputs: ['/3/Sigmoid_output_0'], outputs: ['/4/Relu_output_0'] },
  ];

  it('are refused, also where an activation computes on them', () => {
    expect(readIn(nodes, '2')).toBe('NAME_FOLDED');
    expect(readIn(nodes, '3')).toBe('NAME_FOLDED');
    expect(readIn(nodes, '4')).toBe('/4/Relu_output_0');
  });

  it('hide whether a BatchNorm was folded, and what an activation was fused with', () => {
    expect(readIn(nodes, '0')).toBe('NAME_FOLDED');
    expect(readIn(nodes, '1')).toBe('NAME_FOLDED');
  });
});

describe('a node behind which ONNX Runtime put the permutation before it', () => {
  it('is refused by its tensor’s new name', () => {
    const nodes = [{ op: 'Relu', inputs: ['x'], outputs: ['/act/Relu_token_3'], name: '/act/Relu' }];
    expect(readIn(nodes, 'act')).toBe('NAME_FOLDED');
    expect(readIn([{ ...nodes[0]!, outputs: ['/act/Relu_output_0'] }], 'act')).toBe('/act/Relu_output_0');
  });
});

describe('what ONNX Runtime fused into the operator after it', () => {
  const domain = 'com.microsoft';

  it('is no value of the module: an activation at the end of the graph', () => {
    const nodes = [
      { op: 'Gather', inputs: ['x', 'dims'], outputs: ['/pooler/Gather_output_0'], name: '/pooler/Gather' },
      {
        op: 'FusedGemm',
        domain,
        inputs: ['/pooler/Gather_output_0', 'weight', 'bias'],
        outputs: ['y'],
        name: 'fused /pooler/dense/Gemm',
      },
    ];
    expect(readIn(nodes, 'pooler')).toBe('NAME_FOLDED');
    expect(readIn(nodes, 'pooler.dense')).toBe('NAME_FOLDED');
  });

  it('is no value of the module: the residual of a block, but not that around the attention in it', () => {
    const relu = (name: string, from: string, to: string): NodeSpec => ({
      op: 'Relu',
      inputs: [from],
      outputs: [to],
      name,
    });
    const skip = (left: string, right: string, to: string, name: string): NodeSpec => ({
      op: 'SkipLayerNormalization',
      domain,
      inputs: [left, right, 'weight'],
      outputs: [to],
      name,
    });
    const nodes = [
      relu('/block/norm1/Relu', 'x', 'normalised'),
      relu('/block/attn/Relu', 'normalised', 'attended'),
      skip('attended', 'x', '/block/norm2/Mul_output_0', 'Skip_0'),
      relu('/block/mlp/Relu', '/block/norm2/Mul_output_0', 'end'),
      skip('end', 'attended', 'y', 'Skip_1'),
    ];
    expect(readIn(nodes, 'block')).toBe('NAME_FOLDED');
    expect(readIn(nodes, 'block.attn')).toBe('attended');
    expect(readIn(nodes, 'block.mlp')).toBe('end');
  });

  it('is no value of the module: a factor that onnxslim multiplied into the weights', () => {
    const product = (weight: string): NodeSpec => ({
      op: 'Gemm',
      inputs: ['x', weight, 'bias'],
      outputs: ['y'],
      name: '/fc/Gemm',
    });
    expect(readIn([product('weight')], 'fc')).toBe('y');
    expect(readIn([product('/fc/Add_output_0_weight_fused')], 'fc')).toBe('NAME_FOLDED');
  });
});
