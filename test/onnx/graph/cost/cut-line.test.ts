import { describe, expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Value } from '../../../../src/onnx/graph/graph.js';
import { lineUp, type CutLine } from '../../../../src/onnx/graph/cost/cut-line.js';
import { cutGraph } from '../../../../src/onnx/graph/rewrite/prune.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';
import { CUT_NETWORKS, stagesFacts, stagesModel, type KnownCuts } from '../../../support/stages.js';

function lineOf(bytes: Uint8Array): CutLine {
  const graph = buildGraph(scanModel(memorySource(bytes)));
  const outputs = graph.outputs.map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'output',
  }));
  return lineUp(cutGraph(graph, { outputs }));
}

/** What crosses each place. */
const crossings = ({ nodes, spans }: CutLine): Value[][] =>
  nodes
    .slice(1)
    .map((_, at) => spans.filter(({ first, last }) => first <= at && at <= last).map(({ value }) => value));

const namesOf = (values: readonly Value[]): string[] => values.map(({ name }) => name);

describe.each(CUT_NETWORKS)('the line of %s', (name) => {
  const facts = stagesFacts<KnownCuts>(name);
  const line = lineOf(stagesModel(name));

  it('has all nodes that depend on the input', () => {
    expect(line.nodes).toHaveLength(facts.nodes_that_depend_on_the_input);
  });

  it('has the cut points where one tensor crosses, in order', () => {
    const points = crossings(line).flatMap(([value, ...others], at) =>
      others.length === 0 ? [[value!.name, at + 1]] : [],
    );
    expect(points).toEqual(facts.cut_points.map((point) => [point.tensor, point.nodes_in_front]));
  });

  it('says at each place what crosses it', () => {
    const known = facts.file_order.positions.map(({ tensors }) => [...tensors].toSorted());
    expect(crossings(line).map((values) => namesOf(values).toSorted())).toEqual(known);
  });
});

describe('lineUp', () => {
  it('runs all nodes that do not depend on a cut point before it', () => {
    // The file has the head of "a" last; only "b" leads on.
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['head', 'y'],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['a'] },
        { op: 'Neg', inputs: ['a'], outputs: ['b'] },
        { op: 'Abs', inputs: ['b'], outputs: ['c'] },
        { op: 'Exp', inputs: ['c'], outputs: ['y'] },
        { op: 'Sqrt', inputs: ['a'], outputs: ['head'] },
      ],
    };
    const line = lineOf(modelBytes(spec));
    expect(line.nodes.map(({ opType }) => opType)).toEqual(['Relu', 'Neg', 'Sqrt', 'Abs', 'Exp']);
    expect(crossings(line).map(namesOf)).toEqual([['a'], ['a', 'b'], ['b'], ['c']]);
  });

  it('takes a graph input that is read late for a tensor that crosses', () => {
    const spec: GraphSpec = {
      inputs: ['x', 'z'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['a'] },
        { op: 'Neg', inputs: ['a'], outputs: ['b'] },
        { op: 'Add', inputs: ['b', 'z'], outputs: ['y'] },
      ],
    };
    expect(crossings(lineOf(modelBytes(spec))).map(namesOf)).toEqual([
      ['z', 'a'],
      ['z', 'b'],
    ]);
  });

  it('leaves out what depends on no input', () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      initializers: { w: [1] },
      nodes: [
        { op: 'Neg', inputs: ['w'], outputs: ['v'] },
        { op: 'Add', inputs: ['x', 'v'], outputs: ['a'] },
        { op: 'Mul', inputs: ['a', 'v'], outputs: ['y'] },
      ],
    };
    const line = lineOf(modelBytes(spec));
    expect(line.nodes.map(({ opType }) => opType)).toEqual(['Add', 'Mul']);
    expect(crossings(line).map(namesOf)).toEqual([['a']]);
  });
});
