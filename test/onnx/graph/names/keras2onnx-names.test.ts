import { describe, expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { marksOf } from '../../../../src/onnx/graph/names/marks.js';
import { listNames } from '../../../../src/onnx/graph/names/name-list.js';
import { resolveNames } from '../../../../src/onnx/graph/names/resolve-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes, type NodeSpec } from '../../../support/graphs.js';

const square = { dims: [2, 2], values: [1, 2, 3, 4] };

function graphOf(nodes: readonly NodeSpec[], producer: string): Graph {
  const initializers = { 'dense/kernel:0': square, 'dense/bias:0': [1, 2], 'last/kernel:0': square };
  const bytes = modelBytes(
    { inputs: [{ name: 'x', dims: ['n', 2] }], outputs: ['y'], initializers, nodes },
    { producer },
  );
  return buildGraph(scanModel(memorySource(bytes)));
}

const tensorOf = (graph: Graph, name: string): string => resolveNames(graph, [name])[0]!.value.name;

describe('layers of keras2onnx', () => {
  const dense: NodeSpec[] = [
    { op: 'MatMul', name: 'dense', inputs: ['x', 'dense/kernel:0'], outputs: ['product'] },
    { op: 'Add', name: 'Add3', inputs: ['product', 'dense/bias:0'], outputs: ['biased'] },
  ];
  const last: NodeSpec = { op: 'MatMul', name: 'last', inputs: ['z', 'last/kernel:0'], outputs: ['y'] };

  it('end behind their bias and their own activation', () => {
    const plain = graphOf([...dense, { ...last, inputs: ['biased', 'last/kernel:0'] }], 'keras2onnx');
    expect(tensorOf(plain, 'dense')).toBe('biased');
    expect(tensorOf(plain, 'node:dense')).toBe('product');
    expect(listNames(plain)).toEqual(['x', 'dense:0', 'dense', 'last']);
    const relu = (name: string): Graph =>
      graphOf([...dense, { op: 'Relu', name, inputs: ['biased'], outputs: ['z'] }, last], 'keras2onnx');
    expect(tensorOf(relu('Relu1'), 'dense')).toBe('z');
    expect(tensorOf(relu('re_lu_4'), 'dense')).toBe('biased');
    // It may be the layer's, or a layer of that name.
    expect(() => tensorOf(relu('dense_relu'), 'dense')).toThrow(/may be inside it/);
  });

  it('are refused where the bias is somewhere else', () => {
    const apart: NodeSpec[] = [
      dense[0]!,
      { op: 'Neg', name: 'Neg', inputs: ['product'], outputs: ['negative'] },
      { op: 'Add', name: 'Add', inputs: ['negative', 'dense/bias:0'], outputs: ['z'] },
      last,
    ];
    expect(() => tensorOf(graphOf(apart, 'keras2onnx'), 'dense')).toThrow(/bias of the layer "dense"/);
  });
});

describe('a convolution that the model itself calls', () => {
  it('is named as torchvision names it, and nothing is folded into it', () => {
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 1, 4, 4] }],
      outputs: ['y'],
      initializers: { w: { dims: [1, 1, 1, 1], values: [2] }, b: [1] },
      nodes: [
        { op: 'Conv', name: '/Conv', inputs: ['x', 'w', 'b'], outputs: ['/Conv_output_0'] },
        { op: 'Relu', name: '/Relu', inputs: ['/Conv_output_0'], outputs: ['y'] },
      ],
    });
    const graph = buildGraph(scanModel(memorySource(bytes)));
    expect(tensorOf(graph, 'conv2d')).toBe('/Conv_output_0');
    expect(marksOf(graph, graph.nodes[0]!)).toEqual([]);
  });
});
