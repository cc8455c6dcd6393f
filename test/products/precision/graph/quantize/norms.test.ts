/** Norms that are folded into layers in 8 bits: the same values under the norm's name, the layer's names refused, and what is not folded. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, isTapirError, openModel } from 'onnx-tapir';
import { quantizeModel } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { findLayers } from '../../../../../src/products/precision/graph/quantize/layers.js';
import { foldNorm } from '../../../../../src/products/precision/graph/quantize/norms.js';
import { readModel } from '../../../../../src/run/model/open/open-model.js';
import { modelInternals } from '../../../../../src/run/model/open/model-state.js';
import { readAttributes } from '../../../../../src/onnx/file/scan/attributes.js';
import { WireReader } from '../../../../../src/onnx/file/wire/wire.js';
import { wholeRewrite } from '../../../../../src/products/precision/lowering/lower-precision.js';
import { addsInt8Exactly } from '../../../../support/cpu.js';
import { projectPath, scratchFolder } from '../../../../support/fixtures.js';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../../../support/graphs.js';

const SIZE = 16;
const norm = (of: string): string[] => ['gamma', 'beta', 'mean', 'var'].map((one) => `${of}.${one}`);
const parameters = (of: string, count: number): GraphSpec['initializers'] =>
  Object.fromEntries(
    [1.5, 0.4, -0.3, 0.6].map((x, k) => [
      norm(of)[k]!,
      { dims: [count], values: Array.from({ length: count }, (_, i) => x + 0.1 * i) },
    ]),
  );
const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898));

/** A separable convolution whose norm comes after it, a transposed convolution without a bias, and a linear layer with a norm. */
const NODES: readonly NodeSpec[] = [
  { op: 'Conv', name: '/sep/dw/Conv', inputs: ['x', 'sep.dw.weight', 'sep.dw.bias'], outputs: ['d'] },
  { op: 'Conv', name: '/sep/pw/Conv', inputs: ['d', 'sep.pw.weight'], outputs: ['p'] },
  { op: 'BatchNormalization', name: '/norm/BatchNormalization', inputs: ['p', ...norm('a')], outputs: ['n'] },
  { op: 'Relu', name: '/act/Relu', inputs: ['n'], outputs: ['r'] },
  { op: 'ConvTranspose', name: '/up/ConvTranspose', inputs: ['r', 'up.weight'], outputs: ['u'] },
  { op: 'BatchNormalization', name: '/bn/BatchNormalization', inputs: ['u', ...norm('b')], outputs: ['v'] },
  { op: 'GlobalAveragePool', name: '/pool/GlobalAveragePool', inputs: ['v'], outputs: ['g'] },
  { op: 'Flatten', name: '/flat/Flatten', inputs: ['g'], outputs: ['f'] },
  { op: 'Gemm', name: '/fc/Gemm', inputs: ['f', 'fc.weight', 'fc.bias'], outputs: ['l'] },
  { op: 'BatchNormalization', name: '/last/BatchNormalization', inputs: ['l', ...norm('c')], outputs: ['y'] },
];
const NET: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 3, SIZE, SIZE] }],
  outputs: [{ name: 'y', dims: ['n', 5] }],
  nodes: NODES,
  initializers: {
    'sep.dw.weight': { dims: [3, 3, 3, 3], values: numbers(81) },
    'sep.dw.bias': { dims: [3], values: [0.1, -0.2, 0.3] },
    'sep.pw.weight': { dims: [4, 3, 1, 1], values: numbers(12) },
    'up.weight': { dims: [4, 6, 2, 2], values: numbers(96) },
    'fc.weight': { dims: [6, 5], values: numbers(30) },
    'fc.bias': { dims: [5], values: numbers(5) },
    ...parameters('a', 4),
    ...parameters('b', 6),
    ...parameters('c', 5),
  },
};

describe('norms apart', () => {
  it.runIf(addsInt8Exactly)(
    'are in the layers of the written file, under names that are right or refused',
    async () => {
      const transform = { resize: SIZE, crop: SIZE } as const;
      const photos = projectPath('examples/photos');
      const bars = { transform, minCosine: 0.9, minNeighbours: 0, activations: 'static' } as const;
      const bytes = modelBytes(NET);
      const { model, report } = await quantizeModel(bytes, photos, bars);
      expect(report.nodes).toBe(4);
      expect(report.measured![0]!.least).toBeGreaterThan(0.99);
      const file = join(mkdtempSync(join(scratchFolder(), 'norms-')), 'net.onnx');
      await model.save(file);
      const written = await openModel(file);
      expect(written.nodes.some(({ opType }) => opType === 'BatchNormalization')).toBe(false);
      const names = [
        'sep.dw',
        'norm',
        'act',
        'bn',
        'pool',
        'last',
        'tensor:n',
        'node:/bn/BatchNormalization',
      ];
      await using exact = await createFeatureExtractor(bytes, names);
      await using int8 = await createFeatureExtractor(file, names);
      const data = Float32Array.from({ length: 3 * SIZE ** 2 }, (_, i) => Math.sin(i / 7));
      const input = { dtype: 'float32', dims: [1, 3, SIZE, SIZE], data } as const;
      const [a, b] = [await exact.run(input), await int8.run(input)];
      for (const name of names) {
        const [x, y] = [a[name]!.data as Float32Array, b[name]!.data as Float32Array];
        const largest = Math.max(...x.map(Math.abs));
        for (const [k, value] of x.entries()) expect(Math.abs(value - y[k]!)).toBeLessThan(0.05 * largest);
      }
      for (const name of ['sep', 'sep.pw', 'up', 'fc', 'tensor:p', 'node:/sep/pw/Conv']) {
        const error: unknown = await createFeatureExtractor(file, [name]).catch((thrown: unknown) => thrown);
        if (!isTapirError(error)) throw error;
        expect(['NAME_FOLDED', 'NAME_NOT_FOUND']).toContain(error.code);
      }
    },
  );

  it('stay where another node reads the layer, where they train, and where names have other forms', async () => {
    const folded = async (change: (nodes: NodeSpec[]) => Partial<GraphSpec>): Promise<number> => {
      const nodes = [...NODES];
      const model = readModel(modelBytes({ ...NET, nodes, ...change(nodes) }));
      const rewrite = wholeRewrite(model);
      return modelInternals.of(model).withSource((source) => {
        const reader = new WireReader(source);
        const { layers } = findLayers(rewrite, (node) => readAttributes(reader, node.scanned));
        return layers.filter((layer) => layer.norm).length;
      });
    };
    const read = { op: 'Relu', name: '/other/Relu', inputs: ['p'], outputs: ['o'] } as const;
    expect(await folded(() => ({}))).toBe(3);
    expect(await folded((nodes) => ({ nodes: [...nodes, read] }))).toBe(2);
    const asked = [...NET.outputs, { name: 'p', dims: ['n', 4, SIZE - 2, SIZE - 2] }];
    expect(await folded(() => ({ outputs: asked }))).toBe(2);
    const change = (at: number, fields: Partial<NodeSpec>) => (nodes: NodeSpec[]) => {
      nodes[at] = { ...nodes[at]!, ...fields };
      return {};
    };
    expect(await folded(change(2, { ints: { training_mode: 1 } }))).toBe(2);
    expect(await folded(change(1, { name: 'sep/pw/Conv' }))).toBe(2);
    expect(await folded(change(1, { name: '/sep/other/Conv' }))).toBe(2);
    expect(await folded(change(2, { inputs: ['p', 'x', ...norm('a').slice(1)] }))).toBe(2);
  });

  it('give the weights and the bias of the two together', () => {
    const one = (...values: number[]): Float32Array => Float32Array.from(values);
    const given = { data: one(1, 2, 3, 4), dims: [2, 2] };
    const { weights, bias } = foldNorm(given, one(5, 6), 1, [one(2, 3), one(7, 8), one(1, 2), one(1, 9)], 0);
    expect([...weights.data]).toEqual([2, 2, 6, 4]);
    expect([...bias]).toEqual([15, 12]);
  });
});
