/** The written file opens and gives its values at every optimisation level, or verifyModel says that it does not. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { pruneModel, verifyModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';
import { rounds } from '../../../support/rounds.js';

const LEVELS = ['disabled', 'basic', 'extended', 'all'] as const;
const feed = new Tensor(
  'float32',
  Float32Array.from({ length: 2 * 4 * 81 }, (_, i) => Math.sin(i)),
  [2, 4, 9, 9],
);

/** A small generator of numbers, the same in every run. */
function numbers(seed: number): () => number {
  let at = seed;
  return () => (at = (at * 48_271) % 0x7fffffff) / 0x7fffffff;
}

/** A random graph of convolutions after Pad nodes, with branches; and the tensors that can be requested. */
function randomNet(next: () => number): { readonly spec: GraphSpec; readonly names: string[] } {
  const nodes: NodeSpec[] = [];
  const initializers: Record<string, WeightSpec> = {
    pads: { dims: [8], values: [0, 0, 1, 1, 0, 0, 1, 1], elemType: 'int64' },
  };
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(next() * items.length)]!;
  const add = (op: string, inputs: readonly string[], ints: NodeSpec['ints'] = {}): string => {
    const output = `t${nodes.length}`;
    nodes.push({ op, name: `n${nodes.length}`, inputs, outputs: [output], ints });
    return output;
  };
  const conv = (input: string, pad: number): string => {
    const weight = `w${nodes.length}`;
    initializers[weight] = {
      dims: [4, 4, 3, 3],
      values: Array.from({ length: 144 }, (_, i) => Math.sin(i) / 5),
    };
    return add('Conv', [input, weight], { kernel_shape: [3, 3], pads: [pad, pad, pad, pad] });
  };
  const names = ['x'];
  for (let left = 3 + Math.floor(next() * 8); left > 0; left--) {
    const from = next() < 0.8 ? names.at(-1)! : pick(names);
    const make = pick([
      () => conv(add('Pad', [from, 'pads']), 0),
      () => conv(add('Pad', [from, 'pads']), 0),
      () => conv(from, 1),
      () => add('Relu', [from]),
      () => add('Mul', [from, add('Sigmoid', [from])]),
      () => add('Identity', [from]),
      () => add('Add', [from, pick(names)]),
    ]);
    names.push(make());
  }
  const inputs = [{ name: 'x', dims: ['n', 4, 9, 9] }];
  return { spec: { inputs, outputs: [names.at(-1)!], nodes, initializers }, names: names.slice(1) };
}

/** The largest difference of any output between optimisation levels. */
async function spreadOf(bytes: Uint8Array): Promise<number> {
  let expected: InferenceSession.OnnxValueMapType | undefined;
  let most = 0;
  for (const graphOptimizationLevel of LEVELS) {
    // oxlint-disable-next-line no-await-in-loop -- each session is compared with the first
    const session = await InferenceSession.create(bytes, { graphOptimizationLevel });
    const results = await session.run({ x: feed });
    await session.release();
    expected ??= results;
    for (const [name, { data }] of Object.entries(expected)) {
      const other = results[name]!.data as Float32Array;
      (data as Float32Array).forEach((value, i) => (most = Math.max(most, Math.abs(value - other[i]!))));
    }
  }
  return most;
}

describe('a written file with several keyed outputs', () => {
  it('opens at every optimisation level when a Pad reads a requested tensor', async () => {
    const weight = { dims: [4, 4, 3, 3], values: Array.from({ length: 144 }, (_, i) => Math.cos(i) / 5) };
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4, 9, 9] }],
      outputs: ['b'],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['a'] },
        { op: 'Pad', inputs: ['a', 'pads'], outputs: ['p'] },
        {
          op: 'Conv',
          inputs: ['p', 'w'],
          outputs: ['b'],
          ints: { kernel_shape: [3, 3], pads: [0, 0, 0, 0] },
        },
      ],
      initializers: { w: weight, pads: { dims: [8], values: [0, 0, 1, 1, 0, 0, 1, 1], elemType: 'int64' } },
    };
    const pruned = await pruneModel(modelBytes(spec), { a: 'k0', b: 'k1' });
    expect(await spreadOf(await pruned.bytes())).toBeLessThan(1e-5);
    const report = await verifyModel(pruned, { inputSizes: { n: 2 } });
    expect(report).toMatchObject({ isEqual: true, maxRelative: 0 });
    expect(report.maxRelativeOptimized).toBeLessThan(1e-5);
  });

  it('opens at every optimisation level, and gives the same values: random graphs', async () => {
    const next = numbers(7);
    for (let i = 0; i < rounds(40, 120); i++) {
      const { spec, names } = randomNet(next);
      const request = Object.fromEntries(
        Array.from({ length: 1 + Math.floor(next() * 4) }, (_, k) => [
          `tensor:${names[Math.floor(next() * names.length)]!}`,
          `k${k}`,
        ]),
      );
      // oxlint-disable-next-line no-await-in-loop -- one graph at a time
      const pruned = await pruneModel(modelBytes(spec), request);
      // oxlint-disable-next-line no-await-in-loop -- as above
      expect(await spreadOf(await pruned.bytes()), JSON.stringify(request)).toBeLessThan(1e-3);
    }
  });
});

describe('verifyModel', () => {
  it('refuses a file that opens only without optimisation', async () => {
    // ONNX Runtime’s fault needs no node of ours where an Identity of the source is requested.
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4, 9, 9] }],
      outputs: ['b'],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['a'] },
        { op: 'Identity', inputs: ['a'], outputs: ['i'] },
        { op: 'Pad', inputs: ['a', 'pads'], outputs: ['p'] },
        { op: 'MaxPool', inputs: ['p'], outputs: ['b'], ints: { kernel_shape: [3, 3] } },
      ],
      initializers: { pads: { dims: [8], values: [0, 0, 1, 1, 0, 0, 1, 1], elemType: 'int64' } },
    };
    const pruned = await pruneModel(modelBytes(spec), ['tensor:i', 'tensor:b']);
    await expect(verifyModel(pruned)).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(/opens without optimisation, but not as ONNX Runtime optimises it/),
    });
  });
});
