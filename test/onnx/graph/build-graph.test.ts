import onnxProto from 'onnx-proto';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../src/base/errors.js';
import { buildGraph } from '../../../src/onnx/graph/build-graph.js';
import { pruneModel } from '../../../src/run/model/oracle/prune-model.js';
import { scanModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../support/graphs.js';

const { onnx } = onnxProto;
type Model = ReturnType<typeof onnx.ModelProto.decode>;

const constant = (output: string, values: readonly number[], more: Partial<NodeSpec> = {}): NodeSpec => ({
  op: 'Constant',
  outputs: [output],
  tensors: { value: values },
  ...more,
});
const add = (a: string, b: string, output: string, more: Partial<NodeSpec> = {}): NodeSpec => ({
  op: 'Add',
  inputs: [a, b],
  outputs: [output],
  ...more,
});

interface Case {
  readonly nodes: readonly NodeSpec[];
  readonly inputs?: readonly string[];
  /** Initializers, in order. */
  readonly weights?: readonly (readonly [name: string, values: readonly number[]])[];
}

function bytesOf({ nodes, inputs = ['x'], weights = [] }: Case): Uint8Array {
  const spec: GraphSpec = { inputs, outputs: ['y', 'z'], nodes };
  const model: Model = onnx.ModelProto.decode(modelBytes(spec));
  model.graph!.initializer = weights.map(([name, values]) =>
    onnx.TensorProto.create({ name, dims: [values.length], dataType: 1, floatData: [...values] }),
  );
  return onnx.ModelProto.encode(model).finish();
}

/** What ONNX Runtime computes for x = [1]; undefined if it refuses the model. */
async function run(bytes: Uint8Array): Promise<Record<string, readonly number[]> | undefined> {
  let session: InferenceSession;
  try {
    session = await InferenceSession.create(bytes, {
      graphOptimizationLevel: 'disabled',
      logSeverityLevel: 4,
    });
  } catch {
    return undefined;
  }
  const feeds = Object.fromEntries(
    session.inputNames.map((name) => [name, new Tensor('float32', Float32Array.of(1), [1])]),
  );
  const results = Object.entries(await session.run(feeds));
  await session.release();
  return Object.fromEntries(results.map(([name, { data }]) => [name, [...(data as Float32Array)]]));
}

const both = [add('x', 'k', 'y'), add('x', 'k', 'z')] as const;
const relu: NodeSpec = { op: 'Relu', inputs: ['x'], outputs: ['k'] };

const ACCEPTED: Readonly<Record<string, Case>> = {
  'two Constants of the same value': { nodes: [constant('k', [10]), ...both, constant('k', [10])] },
  'two Constants of different values, with a reader after each': {
    nodes: [constant('k', [10]), add('x', 'k', 'y'), constant('k', [20]), add('x', 'k', 'z')],
  },
  'three Constants after their readers': {
    nodes: [...both, constant('k', [10]), constant('k', [20]), constant('k', [30])],
  },
  'Constants of one node name': {
    nodes: [
      constant('k', [10], { name: 'n' }),
      constant('k', [20], { name: 'n' }),
      add('x', 'k', 'y', { name: 'n' }),
      add('x', 'k', 'z'),
    ],
  },
  'a Constant and an initializer': { nodes: [constant('k', [20]), ...both], weights: [['k', [10]]] },
  'two initializers': {
    nodes: [...both],
    weights: [
      ['k', [10]],
      ['k', [20]],
    ],
  },
  'a Constant and a graph input': { nodes: [constant('k', [20]), ...both], inputs: ['x', 'k'] },
  'a Constant, an initializer and a graph input': {
    nodes: [constant('k', [20]), ...both],
    inputs: ['x', 'k'],
    weights: [['k', [10]]],
  },
};

const REFUSED: Readonly<Record<string, Case>> = {
  'two Constants of different sizes': { nodes: [constant('k', [10]), constant('k', [20, 30]), ...both] },
  'two initializers of different sizes': {
    nodes: [...both],
    weights: [
      ['k', [10]],
      ['k', [20, 30]],
    ],
  },
  'a Constant and another operator after it': { nodes: [constant('k', [10]), relu, ...both] },
  'a Constant and another operator in front of it': { nodes: [relu, constant('k', [10]), ...both] },
  'two other operators': { nodes: [relu, { ...relu, op: 'Neg' }, ...both] },
  'an operator and an initializer': { nodes: [relu, ...both], weights: [['k', [10]]] },
  'an operator and a graph input': { nodes: [relu, ...both], inputs: ['x', 'k'] },
  'a graph input listed twice': { nodes: [relu, ...both], inputs: ['x', 'x'] },
};

describe('a tensor with several definitions', () => {
  it.each(Object.entries(ACCEPTED))('%s: runs, and pruned as in full', async (_, one) => {
    const bytes = bytesOf(one);
    const full = await run(bytes);
    expect(full).toBeDefined();
    for (const output of ['y', 'z']) {
      const pruned = await pruneModel(bytes, [output]);
      expect(await run(await pruned.bytes())).toEqual({ [output]: full![output] });
      expect(pruned.plan.kept.inputs).toEqual(['x']);
      const { nodes, initializers } = pruned.plan.kept;
      expect(nodes.length + initializers.length).toBe(2);
    }
  });

  it.each(Object.entries(REFUSED))('%s: is refused, as ONNX Runtime does', async (_, one) => {
    const bytes = bytesOf(one);
    expect(await run(bytes)).toBeUndefined();
    const error: unknown = await pruneModel(bytes, ['y']).catch((caught: unknown) => caught);
    expect(isTapirError(error, 'GRAPH_INVALID')).toBe(true);
  });

  it('has the last Constant of the file as its producer, also where nodes are not sorted', () => {
    const nodes = [add('u', 'k', 'y'), constant('k', [1]), constant('k', [2]), add('x', 'k', 'u')];
    const graph = buildGraph(scanModel(memorySource(bytesOf({ nodes }))));
    const { producer } = graph.values.get('k')!;
    expect(producer?.scanned).toBe(graph.model.graph.nodes[2]);
    expect(graph.conflicts.size).toBe(0);
  });
});
