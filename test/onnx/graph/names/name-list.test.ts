/** Listing names takes linear work: with twice the nodes, twice the calls of the methods that loops are made of. */
import { describe, expect, it } from 'vitest';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { marksOf } from '../../../../src/onnx/graph/names/marks.js';
import { listNames } from '../../../../src/onnx/graph/names/name-list.js';
import { readModulePath } from '../../../../src/onnx/graph/names/module-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { modelBytes } from '../../../support/graphs.js';

interface Naming {
  readonly tensor: (i: number) => string;
  readonly node: (i: number) => string;
  /** Names of weights; nodes with weights are convolutions. */
  readonly weights?: (i: number) => string[];
  readonly producer?: string;
}

const torch = (scope: (i: number) => string, op: string): Pick<Naming, 'tensor' | 'node'> => ({
  node: (i) => `${scope(i)}/${op}`,
  tensor: (i) => `${scope(i)}/${op}_output_0`,
});
const folded = (i: number): string[] => [`onnx::Conv_${2 * i}`, `onnx::Conv_${2 * i + 1}`];

const NAMINGS: Readonly<Record<string, Naming>> = {
  'MXNet, one stage each': { tensor: (i) => `net0_stage${i}_fwd`, node: (i) => `net0_stage${i}_fwd` },
  'modules of one call': torch((i) => `/a.${i}/b.${i}`, 'Relu'),
  'a Sequential with gaps': torch((i) => `/s/s.${2 * i}`, 'Relu'),
  'runs of one module': torch((i) => (i === 0 ? '/m' : `/m_${i}`), 'Relu'),
  'folded convolutions in one module': { ...torch((i) => `/conv${i}`, 'Conv'), weights: folded },
  'folded convolutions in a Sequential': { ...torch((i) => `/s/s.${2 * i}`, 'Conv'), weights: folded },
  'wrapped convolutions': { ...torch((i) => `/w${i}/conv`, 'Conv'), weights: folded },
  'layers of Keras 2': { tensor: (i) => `m/l${i}/Relu:0`, node: (i) => `m/l${i}/Relu`, producer: 'tf2onnx' },
  'layers of Keras 3': {
    tensor: (i) => `m_1/l${i}_1/Relu:0`,
    node: (i) => `m_1/l${i}_1/Relu`,
    producer: 'tf2onnx',
  },
  'folded layers of Keras': {
    tensor: (i) => `m/bn${i}/FusedBatchNormV3:0`,
    node: (i) => `m/conv${i}/Conv2D`,
    weights: (i) => [`m/conv${i}/Conv2D/kernel:0`, `m/bn${i}/bias:0`],
    producer: 'tf2onnx',
  },
};

function graphOf({ tensor, node, weights, producer = '' }: Naming, count: number): Graph {
  const indices = Array.from({ length: count }, (_, i) => i);
  const bytes = modelBytes(
    {
      inputs: ['x'],
      outputs: [tensor(count - 1)],
      initializers: Object.fromEntries(
        indices.flatMap((i) => (weights?.(i) ?? []).map((name) => [name, [1]])),
      ),
      nodes: indices.map((i) => ({
        op: weights ? 'Conv' : 'Relu',
        name: node(i),
        inputs: [i === 0 ? 'x' : tensor(i - 1), ...(weights?.(i) ?? [])],
        outputs: [tensor(i)],
      })),
    },
    { producer },
  );
  return buildGraph(scanModel(memorySource(bytes)));
}

/** How often some work calls a method of strings, lists, maps, sets or patterns. */
function countCalls(work: () => void): number {
  let calls = 0;
  const methods: [object, string[]][] = [
    [String.prototype, ['startsWith', 'slice', 'split', 'replace', 'lastIndexOf']],
    [Array.prototype, ['at', 'push', 'includes']],
    [Map.prototype, ['get', 'has', 'set']],
    [Set.prototype, ['has', 'add']],
    [RegExp.prototype, ['exec', 'test']],
  ];
  const undo = methods.flatMap(([prototype, names]) =>
    names.map((name) => {
      const original = Object.getOwnPropertyDescriptor(prototype, name)!;
      const method = original.value as (...args: unknown[]) => unknown;
      const value = function (this: unknown, ...args: unknown[]): unknown {
        calls++;
        return method.apply(this, args);
      };
      Object.defineProperty(prototype, name, { ...original, value });
      return () => Object.defineProperty(prototype, name, original);
    }),
  );
  try {
    work();
  } finally {
    for (const restore of undo) restore();
  }
  return calls;
}

function listAll(graph: Graph): number {
  const names = listNames(graph);
  const modules = new Set(names.map((name) => name.split('.')[0]!));
  for (const module of modules) readModulePath(graph, module, false);
  for (const node of graph.nodes) marksOf(graph, node);
  return names.length;
}

describe('listing names', () => {
  it('leaves out sequences, which cannot be asked for', () => {
    const nodes = [
      { op: 'SplitToSequence', inputs: ['x'], outputs: ['parts'] },
      { op: 'SequenceAt', inputs: ['parts', 'place'], outputs: ['part'] },
    ];
    const outputs = [{ name: 'part', dims: ['n', 4] }];
    const initializers = { place: { dims: [], values: [0], type: 'int64' as const } };
    const bytes = modelBytes({ inputs: [{ name: 'x', dims: ['n', 4] }], outputs, nodes, initializers });
    expect(listNames(buildGraph(scanModel(memorySource(bytes))))).toEqual(['x', 'part']);
  });

  it.each(Object.entries(NAMINGS))('takes linear work: %s', (_, naming) => {
    const count = 400;
    const [small, large] = [graphOf(naming, count), graphOf(naming, 4 * count)];
    const before = countCalls(() => expect(listAll(small)).toBe(count + 1));
    const after = countCalls(() => expect(listAll(large)).toBe(4 * count + 1));
    // 4 times the nodes; quadratic work would be 16 times as much.
    expect(after / before).toBeLessThan(6);
  });
});
