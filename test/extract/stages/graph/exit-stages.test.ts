import { describe, expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import { formExits } from '../../../../src/extract/stages/graph/exit-stages.js';
import { cutGraph } from '../../../../src/onnx/graph/rewrite/prune.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes } from '../../../support/graphs.js';

describe('formExits', () => {
  it('gives each exit its own nodes, hands on tensors with rows, and computes sizes again', () => {
    const bytes = modelBytes({
      inputs: ['x'],
      outputs: ['early', 'late'],
      initializers: { w: [1] },
      nodes: [
        { op: 'Neg', inputs: ['w'], outputs: ['v'] },
        { op: 'Shape', inputs: ['x'], outputs: ['size'] },
        { op: 'Add', inputs: ['x', 'v'], outputs: ['a'] },
        { op: 'Reshape', inputs: ['a', 'size'], outputs: ['early'] },
        { op: 'Mul', inputs: ['a', 'v'], outputs: ['b'] },
        { op: 'Reshape', inputs: ['b', 'size'], outputs: ['late'] },
      ],
    });
    const graph = buildGraph(scanModel(memorySource(bytes)));
    const outputs = graph.outputs.map((value) => ({ request: '', key: value.name, value, why: '' }));
    const parts = formExits(cutGraph(graph, { outputs }), graph.outputs);
    const names = parts.map(({ nodes, inputs, outputs: given }) => ({
      nodes: nodes.map(({ opType, outputs: [first] }) => `${opType} ${first!.name}`),
      inputs: inputs.map(({ name }) => name).toSorted(),
      outputs: given.map(({ name }) => name).toSorted(),
    }));
    expect(names).toEqual([
      { nodes: ['Add a', 'Reshape early'], inputs: ['x'], outputs: ['a', 'early'] },
      { nodes: ['Mul b', 'Reshape late'], inputs: ['a', 'x'], outputs: ['late'] },
    ]);
  });
});
