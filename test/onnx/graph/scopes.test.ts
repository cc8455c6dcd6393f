import { describe, expect, it } from 'vitest';
import { addNamesInside, findInside, namesRead } from '../../../src/onnx/graph/scopes.js';
import { scanModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../support/graphs.js';

function readBy(node: NodeSpec): string[] {
  const model = scanModel(memorySource(modelBytes({ outputs: ['y'], nodes: [node] })));
  return namesRead(model.graph.nodes[0]!).toSorted();
}

const loop = (body: GraphSpec): NodeSpec => ({
  op: 'Loop',
  inputs: ['n', ''],
  outputs: ['y'],
  bodies: { body },
});

describe('namesRead', () => {
  it('are inputs and captures, without absent ones', () => {
    const body = {
      inputs: ['i'],
      outputs: ['o'],
      nodes: [{ op: 'Add', inputs: ['i', 'outer'], outputs: ['o'] }],
    };
    expect(readBy(loop(body))).toEqual(['n', 'outer']);
  });

  it('include what a body only gives out', () => {
    expect(readBy(loop({ outputs: ['outer'], nodes: [] }))).toEqual(['n', 'outer']);
  });

  it('leave out what the body defines: inputs, initializers, outputs of its nodes', () => {
    const body: GraphSpec = {
      inputs: ['a'],
      outputs: ['c'],
      initializers: { b: [1] },
      nodes: [
        { op: 'Add', inputs: ['a', 'b'], outputs: ['t'] },
        { op: 'Add', inputs: ['t', 'free'], outputs: ['c'] },
      ],
    };
    expect(readBy(loop(body))).toEqual(['free', 'n']);
  });

  it('go through bodies in bodies, where the middle one may hide a name', () => {
    const inner: GraphSpec = {
      outputs: ['o'],
      nodes: [{ op: 'Add', inputs: ['hidden', 'deep'], outputs: ['o'] }],
    };
    const middle: GraphSpec = {
      inputs: ['hidden'],
      outputs: ['m'],
      nodes: [{ ...loop(inner), outputs: ['m'] }],
    };
    expect(readBy(loop(middle))).toEqual(['deep', 'n']);
  });

  it('are all names that bodies define, for new names to avoid', () => {
    const body: GraphSpec = {
      inputs: ['i'],
      outputs: ['o'],
      initializers: { w: [1] },
      nodes: [{ op: 'Relu', inputs: ['i'], outputs: ['o'] }],
    };
    const model = scanModel(memorySource(modelBytes({ outputs: ['y'], nodes: [loop(body)] })));
    const names = new Set<string>();
    addNamesInside(model.graph.nodes[0]!, names);
    expect([...names].toSorted()).toEqual(['i', 'o', 'w']);
  });
});

describe('findInside', () => {
  it('says where a name is defined, through bodies in bodies', () => {
    const inner: GraphSpec = {
      outputs: ['o'],
      nodes: [{ op: 'Relu', name: 'deep', inputs: ['i'], outputs: ['o'] }],
    };
    const middle: GraphSpec = { outputs: ['m'], nodes: [{ ...loop(inner), outputs: ['m'] }] };
    const model = scanModel(memorySource(modelBytes({ outputs: ['y'], nodes: [loop(middle)] })));
    const { bodies } = model.graph.nodes[0]!;
    expect(findInside(bodies!, 'deep')).toBe('body of Loop "m", in body of Loop "y"');
    expect(findInside(bodies!, 'm')).toBe('body of Loop "y"');
    expect(findInside(bodies!, 'i')).toBeUndefined();
  });
});
