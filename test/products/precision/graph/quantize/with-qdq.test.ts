/** The QDQ rewrite against the same arithmetic in float64, and what of a file it leaves as it is. */
import fc from 'fast-check';
import { createFeatureExtractor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../../src/base/random.js';
import { findLayers, type LayerSearch } from '../../../../../src/products/precision/graph/quantize/layers.js';
import { whyNotLifted } from '../../../../../src/products/precision/graph/quantize/lift.js';
import { movesLevels, planReads } from '../../../../../src/products/precision/graph/quantize/plan-reads.js';
import {
  roundBias,
  roundingOf,
  roundValue,
  roundWeights,
  type Rounding,
} from '../../../../../src/products/precision/graph/quantize/roundings.js';
import { withQdq, type QdqPlan } from '../../../../../src/products/precision/graph/quantize/with-qdq.js';
import { layOutRewrite } from '../../../../../src/onnx/graph/rewrite/lay-out.js';
import type { Rewrite } from '../../../../../src/onnx/graph/rewrite/rewrite.js';
import { collectChunks } from '../../../../../src/onnx/file/emit.js';
import { readAttributes } from '../../../../../src/onnx/file/scan/attributes.js';
import { WireReader } from '../../../../../src/onnx/file/wire/wire.js';
import { modelInternals } from '../../../../../src/run/model/open/model-state.js';
import {
  getGraphNodeNames,
  openModel,
  readModel,
  type OnnxModel,
} from '../../../../../src/run/model/open/open-model.js';
import { wholeRewrite } from '../../../../../src/products/precision/lowering/lower-precision.js';
import { modelBytes, type GraphSpec } from '../../../../support/graphs.js';

const [C, P] = [4, 4];

/** Numbers from -1 to 1. */
function numbers(count: number, seed: number): number[] {
  const next = createRandom(seed);
  return Array.from({ length: count }, () => Math.fround(2 * next() - 1));
}

const W1 = numbers(C * 3, 1);
const B1 = numbers(C, 2);
const W2 = numbers(C * C, 3);
const B2 = numbers(C, 4);
const W3 = numbers(5 * C * P, 5);

/** Two convolutions of 1 × 1 with a sum around the second, and a linear layer. */
const NET: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 3, 2, 2] }],
  outputs: [{ name: 'y', dims: ['n', 5] }],
  nodes: [
    { op: 'Conv', name: '/conv1/Conv', inputs: ['x', 'conv1.weight', 'conv1.bias'], outputs: ['c1'] },
    { op: 'Relu', name: '/relu/Relu', inputs: ['c1'], outputs: ['r1'] },
    { op: 'Conv', name: '/conv2/Conv', inputs: ['r1', 'conv2.weight', 'conv2.bias'], outputs: ['c2'] },
    { op: 'Add', name: '/Add', inputs: ['c2', 'r1'], outputs: ['s'] },
    { op: 'Flatten', name: '/Flatten', inputs: ['s'], outputs: ['f'] },
    { op: 'Gemm', name: '/fc/Gemm', inputs: ['f', 'fc.weight'], outputs: ['y'], ints: { transB: 1 } },
  ],
  initializers: {
    'conv1.weight': { dims: [C, 3, 1, 1], values: W1 },
    'conv1.bias': B1,
    'conv2.weight': { dims: [C, C, 1, 1], values: W2 },
    'conv2.bias': B2,
    'fc.weight': { dims: [5, C * P], values: W3 },
  },
};

interface Opened {
  readonly model: OnnxModel;
  readonly rewrite: Rewrite;
  readonly search: LayerSearch;
  readonly lift: (opset: number) => string | undefined;
}

async function open(bytes: Uint8Array): Promise<Opened> {
  const model = readModel(bytes);
  const rewrite = wholeRewrite(model);
  const read = await modelInternals.of(model).withSource((source) => {
    const reader = new WireReader(source);
    return new Map([...rewrite.cut.nodes].map((node) => [node, readAttributes(reader, node.scanned)]));
  });
  const attributesOf = (node: Parameters<typeof read.get>[0]): NonNullable<ReturnType<typeof read.get>> =>
    read.get(node)!;
  return {
    model,
    rewrite,
    search: findLayers(rewrite, attributesOf),
    lift: (opset) => whyNotLifted(rewrite.cut, opset, attributesOf),
  };
}

async function write(model: OnnxModel, rewrite: Rewrite): Promise<Uint8Array> {
  return modelInternals
    .of(model)
    .withSource(async (source) =>
      collectChunks(source, layOutRewrite(rewrite, 'tensors', new WireReader(source))),
    );
}

/** Everything in 8 bits, with the given levels of the tensors. */
function planAll({ rewrite, search }: Opened, roundings: ReadonlyMap<string, Rounding>): QdqPlan {
  const [weights, biases] = [
    [W1, W2, W3],
    [B1, B2, undefined],
  ];
  const layers = search.layers.map((layer, k) => {
    const bias = biases[k] && Float32Array.from(biases[k]);
    const { scale } = roundings.get(layer.tensor)!;
    const data = Float32Array.from(weights[k]!);
    const rounded = roundWeights({ data, dims: layer.weights.tensor.dims }, layer.axis, bias, scale)!;
    return { layer, weights: rounded, bias };
  });
  return {
    layers,
    ...planReads(rewrite, [...search.layers, ...search.joins.flat()], roundings, new Set()),
  };
}

/** `[rows, inner]` × the rounded weights `[outer, inner]`, plus the rounded bias, in float64. */
function multiply(
  x: readonly number[][],
  { layer, weights, bias: added }: QdqPlan['layers'][number],
  roundings: QdqPlan['roundings'],
): number[][] {
  const bias = added && roundBias(added, roundings.get(layer.tensor)!.scale, weights.scales);
  const outer = weights.scales.length;
  const inner = weights.values.length / outer;
  return x.map((row) =>
    Array.from({ length: outer }, (_, o) => {
      const sum = row.reduce(
        (total, value, i) => total + value * weights.values[o * inner + i]! * weights.scales[o]!,
        0,
      );
      return sum + (bias ? bias.values[o]! * bias.scales[o]! : 0);
    }),
  );
}

/** x → Conv → Split → (a, b), b → Conv → c; Concat(a, b, c) → Conv. */
const SPLIT: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 2, 4, 4] }],
  outputs: [{ name: 'y', dims: ['n', 1, 4, 4] }],
  nodes: [
    { op: 'Conv', inputs: ['x', 'w'], outputs: ['h'] },
    { op: 'Split', inputs: ['h'], outputs: ['a', 'b'], ints: { axis: 1 } },
    { op: 'Conv', inputs: ['b', 'v'], outputs: ['c'] },
    { op: 'Concat', inputs: ['a', 'b', 'c'], outputs: ['joined'], ints: { axis: 1 } },
    { op: 'Conv', inputs: ['joined', 'u'], outputs: ['y'] },
  ],
  initializers: {
    w: { dims: [2, 2, 1, 1], values: [1, 2, 3, 4] },
    v: { dims: [1, 1, 1, 1], values: [1] },
    u: { dims: [1, 3, 1, 1], values: [1, 2, 3] },
  },
};

const HEAD = [1e-10, 1e-10, 1, -1];
/** A head that two levels share, as detectors have it. One of its channels gives its bias alone. */
const SHARED: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 2, 4, 4] }],
  outputs: [
    { name: 'y', dims: ['n', 1, 4, 4] },
    { name: 'z', dims: ['n', 1, 4, 4] },
  ],
  nodes: [
    { op: 'Mul', inputs: ['x', 'k'], outputs: ['big'] },
    { op: 'Conv', inputs: ['x', 'w', 'b'], outputs: ['h'] },
    { op: 'Conv', inputs: ['big', 'w', 'b'], outputs: ['i'] },
    { op: 'Conv', inputs: ['h', 'u'], outputs: ['y'] },
    { op: 'Conv', inputs: ['i', 'u'], outputs: ['z'] },
  ],
  initializers: {
    k: { dims: [], values: [30] },
    w: { dims: [2, 2, 1, 1], values: HEAD },
    b: [4, 1],
    u: { dims: [1, 2, 1, 1], values: [1, 1] },
  },
};

/** A block with squeeze and excitation, a convolution, and the pool behind it. */
const POOLS: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 2, 4, 4] }],
  outputs: [{ name: 'y', dims: ['n', 2, 1, 1] }],
  nodes: [
    { op: 'Conv', inputs: ['x', 'w'], outputs: ['first'] },
    { op: 'GlobalAveragePool', inputs: ['first'], outputs: ['squeezed'] },
    { op: 'Conv', inputs: ['squeezed', 'w'], outputs: ['excited'] },
    { op: 'Mul', inputs: ['first', 'excited'], outputs: ['scaled'] },
    { op: 'Conv', inputs: ['scaled', 'w'], outputs: ['h'] },
    { op: 'Relu', inputs: ['h'], outputs: ['last'] },
    { op: 'GlobalAveragePool', inputs: ['last'], outputs: ['y'] },
  ],
  initializers: { w: { dims: [2, 2, 1, 1], values: [1, 2, 3, 4] } },
};

describe('withQdq', () => {
  it('computes what the same levels give in float64', async () => {
    const opened = await open(modelBytes(NET));
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 2 ** 30 }),
        fc.double({ min: 0.2, max: 3, noNaN: true }),
        async (seed, factor) => {
          const x = numbers(3 * P, seed).map((value) => value * factor);
          const roundings = new Map<string, Rounding>([
            ['x', roundingOf(-factor * 0.9, factor)],
            ['r1', roundingOf(0, 2.5 * factor)],
            ['c2', roundingOf(-2 * factor, 4 * factor)],
            ['f', roundingOf(-2 * factor, 5 * factor)],
          ]);
          const plan = planAll(opened, roundings);
          const round = (tensor: string, rows: readonly number[][]): number[][] =>
            rows.map((row) =>
              row.map((value) => roundValue(Math.fround(value), plan.roundings.get(tensor)!)),
            );
          // Pixels as rows of channels.
          const pixels = Array.from({ length: P }, (_, p) => [0, 1, 2].map((channel) => x[channel * P + p]!));
          const r1 = round(
            'r1',
            multiply(round('x', pixels), plan.layers[0]!, plan.roundings).map((row) =>
              row.map((v) => Math.max(0, v)),
            ),
          );
          const c2 = round('c2', multiply(r1, plan.layers[1]!, plan.roundings));
          const sum = c2.map((row, p) => row.map((value, channel) => value + r1[p]![channel]!));
          const flat = round('f', [
            Array.from({ length: C * P }, (_, at) => sum[at % P]![Math.floor(at / P)]!),
          ]);
          const [expected] = multiply(flat, plan.layers[2]!, plan.roundings) as [number[]];
          const bytes = await write(opened.model, withQdq(opened.rewrite, plan));
          await using exact = await createFeatureExtractor(bytes, ['y'], {
            session: { graphOptimizationLevel: 'disabled' },
          });
          const input = { dtype: 'float32', dims: [1, 3, 2, 2], data: Float32Array.from(x) } as const;
          const y = (await exact.run(input))['y']!.data as Float32Array;
          // A value between two levels may fall to the other side in float32: one step of one element.
          const step = plan.roundings.get('f')!.scale + plan.roundings.get('c2')!.scale;
          for (const [k, value] of expected.entries())
            expect(Math.abs(y[k]! - value)).toBeLessThan(1e-3 + 2 * step);
          const near = expected.filter((value, k) => Math.abs(y[k]! - value) < 1e-4 * factor);
          expect(near.length).toBeGreaterThanOrEqual(3);
        },
      ),
      { numRuns: 12, seed: 7 },
    );
  });

  it('keeps names, tensors and bytes of what it does not round', async () => {
    const opened = await open(modelBytes(NET, { opset: 12 }));
    const [first] = opened.search.layers;
    const plan = planAll(
      opened,
      new Map([...new Set(['x', 'r1', 'c2', 'f'])].map((name) => [name, roundingOf(-1, 2)])),
    );
    const rewrite = withQdq(opened.rewrite, {
      ...plan,
      layers: plan.layers.slice(0, 1),
      reads: [first!],
    });
    const written = await openModel(await write(opened.model, rewrite));
    expect(written.opsets.get('')).toBe(13);
    const names = getGraphNodeNames(opened.model);
    expect(getGraphNodeNames(written)).toEqual(expect.arrayContaining(names));
    const { graph } = modelInternals.of(written);
    const { graph: before } = modelInternals.of(opened.model);
    for (const name of ['conv2.weight', 'conv2.bias', 'fc.weight']) {
      expect(graph.values.get(name)?.initializer?.dims).toEqual(before.values.get(name)!.initializer!.dims);
    }
    expect(graph.values.has('conv1.weight')).toBe(false);
    expect(graph.values.get('conv1.weight/int8')?.initializer?.elemType).toBe(3);
    const nodeBytes = (model: OnnxModel, name: string): Promise<string> =>
      modelInternals.of(model).withSource((source) => {
        const { start, end } = modelInternals.of(model).graph.nodes.find((node) => node.name === name)!
          .scanned.field;
        return Buffer.from(source.read(start, end - start)).toString('hex');
      });
    for (const name of ['/relu/Relu', '/conv2/Conv', '/Add', '/Flatten', '/fc/Gemm'])
      expect(await nodeBytes(written, name)).toBe(await nodeBytes(opened.model, name));
  });

  it('shares rounded weights only with the scales that the bias of each layer is rounded by, which engines take', async () => {
    const opened = await open(modelBytes(SHARED));
    const ranges = { x: 1, big: 30, h: 6, i: 60 };
    const roundings = new Map(Object.entries(ranges).map(([name, most]) => [name, roundingOf(0, most)]));
    const layers = opened.search.layers.map((layer) => {
      const bias = layer.bias && Float32Array.of(4, 1);
      const values = layer.bias ? HEAD : [1, 1];
      const { scale } = roundings.get(layer.tensor)!;
      const constant = { data: Float32Array.from(values), dims: layer.weights.tensor.dims };
      return { layer, weights: roundWeights(constant, layer.axis, bias, scale)!, bias };
    });
    const { reads, roundings: planned } = planReads(
      opened.rewrite,
      opened.search.layers,
      roundings,
      new Set(),
    );
    const { edits } = withQdq(opened.rewrite, { layers, reads, roundings: planned });
    const weights = layers.map(({ layer }) => edits.get(layer.node)!.inputs.get(1));
    expect(weights).toEqual(['w/rounded', 'w/rounded_1', 'u/rounded', 'u/rounded']);
  });

  it('rounds before nodes that only move elements, and after them alike', async () => {
    const opened = await open(modelBytes(NET));
    const levels = roundingOf(-2, 4);
    const { reads, roundings } = planReads(
      opened.rewrite,
      [opened.search.layers[2]!],
      new Map([['f', levels]]),
      new Set(opened.rewrite.cut.graph.nodes.filter(({ opType }) => opType === 'Flatten')),
    );
    expect(reads.map(({ node, tensor }) => [node.opType, tensor])).toEqual([
      ['Flatten', 's'],
      ['Gemm', 'f'],
    ]);
    expect(roundings.get('s')).toEqual(levels);
  });

  it('rounds only before a Pad with zeros, so that it stands right before its convolution', async () => {
    const padded: GraphSpec = {
      ...NET,
      nodes: [
        { op: 'Pad', inputs: ['x', 'pads'], outputs: ['p'] },
        ...NET.nodes.map((node) =>
          node.name === '/conv1/Conv' ? { ...node, inputs: ['p', ...node.inputs!.slice(1)] } : node,
        ),
      ],
      initializers: {
        ...NET.initializers,
        pads: { dims: [8], values: [0, 0, 0, 0, 0, 0, 0, 0], elemType: 'int64' },
      },
    };
    const { rewrite, search } = await open(modelBytes(padded));
    const given = new Map([['p', roundingOf(-1, 1)]]);
    const [layer] = search.layers as [LayerSearch['layers'][number]];
    const pads = new Set(rewrite.cut.graph.nodes.filter(({ opType }) => opType === 'Pad'));
    const moved = planReads(rewrite, [layer], given, pads);
    expect(moved.reads.map(({ node, tensor }) => [node.opType, tensor])).toEqual([['Pad', 'x']]);
    expect([...moved.roundings.keys()]).toEqual(['p', 'x']);
    expect(planReads(rewrite, [layer], given, new Set()).reads).toEqual([layer]);
  });

  it('lets levels pass through a Split and a Concat that join one scale', async () => {
    const { rewrite, search } = await open(modelBytes(SPLIT));
    const moving = new Set(rewrite.cut.graph.nodes.filter((node) => movesLevels(node, new Map())));
    const tensors = search.layers.map(({ tensor }) => tensor);
    expect(tensors).toEqual(['x', 'b', 'joined']);
    const one = roundingOf(-1, 3);
    const given = new Map([
      ['x', roundingOf(0, 1)],
      ['b', one],
      ['joined', one],
    ]);
    const { reads, roundings } = planReads(rewrite, search.layers, given, moving);
    expect(reads.map(({ node, tensor }) => `${node.opType} ${tensor}`)).toEqual([
      'Conv x',
      'Split h',
      'Conv b',
      'Concat a',
      'Concat b',
      'Concat c',
      'Conv joined',
    ]);
    expect(['h', 'a', 'c'].map((name) => roundings.get(name))).toEqual([one, one, one]);
    // Other levels behind it: the Split stays as it is.
    const apart = planReads(rewrite, search.layers, new Map([...given, ['b', roundingOf(-1, 1)]]), moving);
    expect(apart.reads).toHaveLength(3);
  });

  it('moves levels by operators that only move elements', () => {
    const of = (opType: string, mode?: string): boolean =>
      movesLevels(
        { domain: '', opType } as never,
        new Map(mode === undefined ? [] : [['mode', { text: mode }]]) as never,
      );
    expect(['Concat', 'Reshape', 'MaxPool', 'Resize', 'Pad'].every((opType) => of(opType))).toBe(true);
    expect(['Add', 'Mul', 'AveragePool', 'Softmax'].some((opType) => of(opType))).toBe(false);
    expect([of('Resize', 'linear'), of('Pad', 'reflect'), of('Resize', 'nearest')]).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('takes the pool behind the last convolution along, not that of squeeze and excitation', async () => {
    const { search } = await open(modelBytes(POOLS));
    expect(search.joins.map(([read]) => read!.tensor)).toEqual(['last']);
  });

  it('takes sums of two activations, not those with a constant behind another node', async () => {
    const sums: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, 2, 2] }],
      outputs: [{ name: 'y', dims: ['n', C, 2, 2] }],
      nodes: [
        { op: 'Conv', inputs: ['x', 'w'], outputs: ['c'] },
        { op: 'Identity', inputs: ['b'], outputs: ['same'] },
        { op: 'Add', inputs: ['c', 'same'], outputs: ['shifted'] },
        { op: 'Add', inputs: ['c', 'shifted'], outputs: ['y'] },
      ],
      initializers: {
        w: { dims: [C, 3, 1, 1], values: W1 },
        b: { dims: [C, 1, 1], values: B1 },
      },
    };
    const { search } = await open(modelBytes(sums));
    expect(search.joins.map((reads) => reads.map(({ tensor }) => tensor))).toEqual([['c', 'shifted']]);
  });

  it('lifts an old operator set only if every operator stays the same', async () => {
    const { lift } = await open(modelBytes(NET, { opset: 11 }));
    expect(lift(11)).toBeUndefined();
    expect(lift(8)).toMatch(/operator set 8/);
    const squeezed: GraphSpec = {
      ...NET,
      nodes: [...NET.nodes, { op: 'Squeeze', inputs: ['c1'], outputs: ['z'], ints: { axes: [2] } }],
    };
    const other = await open(modelBytes(squeezed, { opset: 11 }));
    expect(other.lift(11)).toMatch(/Squeeze means something else since 13/);
    expect(other.lift(13)).toBeUndefined();
    const dropped = async (floats: Record<string, number>): Promise<string | undefined> => {
      const node = { op: 'Dropout', inputs: ['c1'], outputs: ['z'], floats };
      return (await open(modelBytes({ ...NET, nodes: [...NET.nodes, node] }, { opset: 11 }))).lift(11);
    };
    expect(await dropped({})).toBeUndefined();
    expect(await dropped({ ratio: 0.5 })).toMatch(/Dropout means something else since 12/);
  });
});

describe('roundings', () => {
  it('are unsigned from 0 on, signed around 0, and have a level for 0 otherwise', () => {
    expect(roundingOf(0.5, 2)).toEqual({ scale: Math.fround(2 / 255), zero: 0, isSigned: false });
    expect(roundingOf(-1, 1)).toMatchObject({ zero: 0, isSigned: true });
    const apart = roundingOf(-0.4, 4);
    expect(apart).toMatchObject({ isSigned: false, zero: 23 });
    for (const x of [0, -0]) expect(roundValue(x, apart) + 0).toBe(0);
    expect(roundValue(100, apart)).toBeCloseTo(4, 2);
    expect(roundingOf(0, 0).scale).toBeGreaterThan(0);
  });

  it('give channels of zeros a scale, and make room for large biases', () => {
    const { scales } = roundWeights(
      { data: Float32Array.of(0, 0, 1, -2), dims: [2, 2] },
      0,
      Float32Array.of(1e6, 0),
      1e-3,
    )!;
    expect(scales[0]! * 1e-3 * 2 ** 31).toBeGreaterThan(1e6);
    expect(scales[1]).toBeCloseTo(2 / 127);
    expect(roundWeights({ data: Float32Array.of(NaN), dims: [1, 1] }, 0, undefined, 1)).toBeUndefined();
    // The range that is chosen in the end may be narrower than the one that weights are rounded for.
    const dead = roundWeights({ data: Float32Array.of(0), dims: [1, 1] }, 0, Float32Array.of(5), 1)!;
    const narrow = roundBias(Float32Array.of(5), 1 / 100, dead.scales);
    expect(narrow.values[0]! * narrow.scales[0]!).toBeCloseTo(5);
    expect(roundBias(Float32Array.of(5), 1e-9, dead.scales).values[0]).toBe(2 ** 31 - 1);
  });
});
