/** Where stages begin, and what passes between them. */
import { describe, expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import { withNorms, type Norm } from '../../../../src/onnx/graph/rewrite/norm-statistics.js';
import { cutToNorms, stagesOf } from '../../../../src/extract/stages/graph/norm-stages.js';
import { addedNodes, startRewrite } from '../../../../src/onnx/graph/rewrite/rewrite.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';
import { normNode, normWeights } from '../../../support/norm-graphs.js';

/** A residual block: `x → conv-like Relu → bn1 → … + shortcut bn → bn3`. */
const BLOCK: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 2, 3] }],
  outputs: [{ name: 'y', dims: ['n', 2, 3] }],
  nodes: [
    { op: 'Relu', inputs: ['x'], outputs: ['r'], name: 'relu' },
    normNode('bn1', 'r', 'a'),
    { op: 'Sigmoid', inputs: ['a'], outputs: ['s'], name: 'sigmoid' },
    normNode('bn2', 's', 'b'),
    normNode('side', 'x', 'c'),
    { op: 'Add', inputs: ['b', 'c'], outputs: ['d'], name: 'add' },
    normNode('bn3', 'd', 'y'),
  ],
  initializers: Object.assign(
    {},
    ...['bn1', 'bn2', 'bn3', 'side'].map((name) => normWeights(name, 2)),
  ) as never,
};

function open(spec: GraphSpec): { readonly graph: Graph; readonly norms: Norm[] } {
  const graph = buildGraph(scanModel(memorySource(modelBytes(spec))));
  const norms = graph.nodes
    .filter(({ opType }) => opType === 'BatchNormalization')
    .map((node): Norm => ({ node, input: node.inputs[0]!, channels: 2, elemType: 1, added: undefined }));
  return { graph, norms };
}

const namesOf = (values: readonly { readonly name: string }[]): string[] =>
  values.map(({ name }) => name).toSorted();

describe('stages', () => {
  it('are one per level of norms; parallel branches share them', () => {
    const { graph, norms } = open(BLOCK);
    const stages = stagesOf(graph, norms);
    expect(stages.map((stage) => stage.norms.map(({ node }) => node.name))).toEqual([
      ['bn1', 'side'],
      ['bn2'],
      ['bn3'],
    ]);
    expect(stages.map(({ gives }) => namesOf(gives))).toEqual([['r'], ['c', 's'], []]);
    expect(stages.map(({ takes }) => namesOf(takes))).toEqual([[], ['r'], ['c', 's']]);
    expect(stages.map(({ frees }) => namesOf(frees))).toEqual([[], ['r'], ['c', 's']]);
  });

  it('begin after a layer to which a norm is added', () => {
    const { graph } = open(BLOCK);
    const relu = graph.nodes[0]!;
    const added = {
      gamma: Float64Array.of(1, 1),
      beta: Float64Array.of(0, 0),
      epsilon: 1e-5,
      statistics: undefined,
    };
    const norm: Norm = { node: relu, input: relu.outputs[0]!, channels: 2, elemType: 1, added };
    const last: Norm = {
      node: graph.nodes[6]!,
      input: graph.nodes[6]!.inputs[0]!,
      channels: 2,
      elemType: 1,
      added: undefined,
    };
    const stages = stagesOf(graph, [norm, last]);
    expect(stages.map((stage) => stage.norms)).toEqual([[norm], [last]]);
    // The shortcut is computed as early as it can be.
    expect(namesOf(stages[0]!.gives)).toEqual(['c', 'r']);
  });
});

describe('a rewrite with other statistics', () => {
  it('never has a training mode, and drops what norms do not need', () => {
    const { graph, norms } = open(BLOCK);
    const cut = cutToNorms(graph, norms);
    expect([...cut.nodes].map(({ name }) => name)).not.toContain('bn3');
    const started = startRewrite(cut);
    const { rewrite, taps, feeds } = withNorms(
      started,
      norms.map((norm, i) => ({ norm, from: i === 0 ? 'inputs' : 'batch', isTapped: true })),
    );
    expect(rewrite.outputs).toHaveLength(4 * norms.length);
    expect([...taps.keys()]).toEqual(norms);
    expect(rewrite.inputs.map(({ name }) => name)).toEqual(Object.values(feeds.get(norms[0]!)!));
    const added = addedNodes(rewrite);
    expect(added.filter((node) => 'attributes' in node && 'training_mode' in node.attributes!)).toEqual([]);
    // The types of these tensors are not stated, and from operator set 15 on they may differ from the statistics'.
    expect(new Set(added.map(({ opType }) => opType))).toEqual(
      new Set(['Reshape', 'Cast', 'ReduceMean', 'Sub', 'Mul', 'Shape']),
    );
    expect([...rewrite.edits.get(norms[1]!.node)!.inputs.keys()]).toEqual([3, 4]);
  });

  it('refuses operator sets without broadcasting', () => {
    const graph = buildGraph(scanModel(memorySource(modelBytes(BLOCK, { opset: 6 }))));
    const node = graph.nodes.find(({ opType }) => opType === 'BatchNormalization');
    const norm: Norm = { node: node!, input: node!.inputs[0]!, channels: 2, elemType: 1, added: undefined };
    const started = startRewrite(cutToNorms(graph, [norm]));
    expect(() => withNorms(started, [{ norm, from: 'model', isTapped: true }])).toThrow(/operator set 7/);
  });
});
