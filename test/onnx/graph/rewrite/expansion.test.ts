/** Small files that become large, or deep, in a session or in a walk. */
import { expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { siteOf } from '../../../../src/onnx/graph/parameters/site.js';
import { readConstants } from '../../../../src/onnx/graph/read-constants.js';
import { measureExpansion } from '../../../../src/onnx/graph/rewrite/expansion.js';
import { wholeCut } from '../../../../src/onnx/graph/rewrite/prune.js';
import { contentsOf } from '../../../../src/onnx/graph/scopes.js';
import { startRewrite } from '../../../../src/onnx/graph/rewrite/rewrite.js';
import { checkRunnable } from '../../../../src/run/model/open/check-runnable.js';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import { readPayload } from '../../../../src/onnx/file/tensor-payload.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { WireReader } from '../../../../src/onnx/file/wire/wire.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

/** `count` functions, each of which calls the one before so often; the first one has two nodes. */
function nested(count: number, calls: number): object[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `f${i}`,
    domain: 'local',
    input: ['x'],
    output: ['y'],
    opsetImport: [{ domain: '', version: 17 }],
    node: Array.from({ length: i === 0 ? 2 : calls }, (_node, k) => ({
      opType: i === 0 ? 'Relu' : `f${i - 1}`,
      domain: i === 0 ? '' : 'local',
      input: ['x'],
      output: [k === 0 ? 'y' : `y${k}`],
    })),
  }));
}

const readerOf = (bytes: Uint8Array): WireReader => new WireReader(memorySource(bytes));
const graphOf = (spec: GraphSpec, functions: object[] = []): Graph =>
  buildGraph(scanModel(memorySource(modelBytes(spec, { functions }))));

function calling(functions: object[]): Graph {
  const op = { op: `f${functions.length - 1}`, domain: 'local' };
  const body: GraphSpec = { outputs: ['o'], nodes: [{ ...op, inputs: ['a'], outputs: ['o'] }] };
  const nodes = [
    { ...op, inputs: ['a'], outputs: ['y'] },
    { op: 'If', inputs: ['c'], outputs: ['z'], bodies: { then_branch: body, else_branch: body } },
  ];
  return graphOf({ inputs: ['a', 'c'], outputs: ['y', 'z'], nodes }, functions);
}

const open = (graph: Graph) => () =>
  checkRunnable(startRewrite(wholeCut(graph, []), true), readDevice('device', 'cpu'));

it('calls of functions are multiplied, in bodies too, and not expanded', () => {
  const measure = (count: number, calls: number) =>
    measureExpansion(wholeCut(calling(nested(count, calls)), []));
  // Called by a node, and in both branches of an If, which is a node too.
  expect(measure(3, 2)).toEqual({ nodes: 3 * 8 + 1, depth: 3 });
  expect(measure(1, 0)).toEqual({ nodes: 3 * 2 + 1, depth: 1 });
  expect(measure(40, 2).nodes).toBe(3 * 2 ** 40 + 1);
  expect(measure(1500, 2).nodes).toBe(Infinity);
});

it('what ONNX Runtime would expand for ever, or would crash on, is refused before it is opened', () => {
  expect(open(calling(nested(14, 2)))).not.toThrow();
  expect(open(calling(nested(40, 2)))).toThrow(/its functions expand to 3,298,534,883,329 nodes/);
  expect(open(calling(nested(256, 1)))).not.toThrow();
  expect(open(calling(nested(257, 1)))).toThrow(/call each other 257 deep/);
});

it('long chains of functions and of Identity nodes are walked once', () => {
  const deep = calling(nested(4000, 1));
  expect(contentsOf(deep, deep.nodes).size).toBe(4001);
  const length = 15_000;
  const chain = graphOf({
    outputs: [`i${length}`],
    initializers: { i0: [1] },
    nodes: Array.from({ length }, (_, i) => ({ op: 'Identity', inputs: [`i${i}`], outputs: [`i${i + 1}`] })),
  });
  const sites = chain.nodes.toReversed().map((node) => siteOf(node, 0));
  expect(new Set(sites.map((site) => site?.initializer.name))).toEqual(new Set(['i0']));
  const circle = graphOf({
    outputs: ['a'],
    nodes: [
      { op: 'Identity', inputs: ['a'], outputs: ['b'] },
      { op: 'Identity', inputs: ['b'], outputs: ['a'] },
    ],
  });
  expect(siteOf(circle.nodes[0]!, 0)).toBeUndefined();
  const { integersOf } = readConstants(readerOf(modelBytes({ outputs: ['a'], nodes: [] })));
  expect(integersOf(circle.values.get('a')!)).toBeUndefined();
});

it('nothing is allocated for a tensor whose dims state more than its bytes can hold', () => {
  const bytes = modelBytes({
    outputs: ['y'],
    nodes: [{ op: 'Relu', inputs: ['w'], outputs: ['y'] }],
    initializers: { w: { dims: [2 ** 40], values: [1] } },
  });
  const [tensor] = scanModel(memorySource(bytes)).graph.initializers;
  expect(() => readPayload(readerOf(bytes), tensor!, undefined)).toThrow(/does not hold as many elements/);
});
