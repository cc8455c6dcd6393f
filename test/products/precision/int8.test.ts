/** int8: products with constant matrices in 8 bits, what they compute, which are chosen, and what is refused (docs/decisions/040-int8.md). */
import { join } from 'node:path';
import { mkdtempSync, writeFileSync } from 'node:fs';
import {
  createFeatureExtractor,
  openModel,
  pruneModel,
  verifyModel,
  type OnnxModel,
  type Options,
  type Tensor,
} from 'onnx-tapir';
import { lowerPrecision, type LoweringOptions, type LoweringReport } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { cosineOf } from '../../support/cosine.js';
import { addsInt8Exactly } from '../../support/cpu.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../support/graphs.js';

const scratch = scratchFolder();
const K = 48;
const N = 64;

/** Made-up numbers from -1 to 1. */
function numbers(count: number, seed: number): number[] {
  const next = createRandom(seed);
  return Array.from({ length: count }, () => 2 * next() - 1);
}

const matrix = (rows: number, columns: number, seed = 1): { dims: number[]; values: number[] } => ({
  dims: [rows, columns],
  values: numbers(rows * columns, seed),
});

function batch(rows: number, seed = 5, columns = K): Tensor<'float32'> & { data: Float32Array } {
  return { dtype: 'float32', dims: [rows, columns], data: Float32Array.from(numbers(rows * columns, seed)) };
}

/** A model of `x`, `[n, K]`, and `y`, `[n, columns]`. */
function model(
  nodes: readonly NodeSpec[],
  initializers: Record<string, WeightSpec>,
  { columns = N, opset = 17 } = {},
): Uint8Array {
  const inputs = [{ name: 'x', dims: ['n', K] }];
  return modelBytes(
    { inputs, outputs: [{ name: 'y', dims: ['n', columns] }], nodes, initializers },
    { opset },
  );
}

async function quantise(
  bytes: Uint8Array | OnnxModel | string,
  options: Options<LoweringOptions> = {},
): Promise<{ model: OnnxModel; report: LoweringReport }> {
  return lowerPrecision(bytes, { precision: 'int8', ...options });
}

async function run(source: OnnxModel | Uint8Array, x: Tensor, level?: 'disabled'): Promise<Float32Array> {
  const session = level && { graphOptimizationLevel: level };
  await using extractor = await createFeatureExtractor(source, ['y'], { session });
  return (await extractor.run(x))['y']!.data as Float32Array;
}

/** What the 8-bit form of `x × matrix` must give, in double precision. */
function reference(
  x: Tensor<'float32'>,
  { values, dims }: { values: readonly number[]; dims: readonly number[] },
): number[] {
  const [rows, columns] = dims as [number, number];
  const f = Math.fround;
  const even = (v: number): number => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v));
  const scales = Array.from({ length: columns }, (_, n) =>
    f(Math.max(...Array.from({ length: rows }, (__, k) => Math.abs(f(values[k * columns + n]!)))) / 127),
  );
  return Array.from({ length: x.dims[0]! * columns }, (_, at) => {
    const [row, n] = [Math.floor(at / columns), at % columns];
    const own = x.data.subarray(row * rows, (row + 1) * rows);
    const largest = Math.max(...Array.from(own, Math.abs));
    let sum = 0;
    for (let k = 0; k < rows; k++)
      sum += even((own[k]! / largest) * 127) * even(f(values[k * columns + n]!) / scales[n]!);
    return (sum * scales[n]! * largest) / 127;
  });
}

const close = (actual: Float32Array, expected: readonly number[]): void => {
  const largest = Math.max(...expected.map(Math.abs));
  expect(actual).toHaveLength(expected.length);
  // A value between two levels may go to either: one step of 127 × 127 in a sum.
  for (const [i, value] of expected.entries())
    expect(Math.abs(actual[i]! - value)).toBeLessThan(largest * 3e-3);
};

const transposed = ({ dims, values }: { dims: readonly number[]; values: readonly number[] }): WeightSpec => {
  const [rows, columns] = dims as [number, number];
  const turned = Array.from(
    { length: values.length },
    (_, i) => values[(i % rows) * columns + Math.floor(i / rows)]!,
  );
  return { dims: [columns, rows], values: turned };
};

describe.runIf(addsInt8Exactly)('products in 8 bits', () => {
  const a = matrix(K, N);
  const bias = numbers(N, 9);
  const withBias = (values: readonly number[], factor: number): number[] =>
    values.map((value, i) => factor * value + bias[i % N]!);
  it.each<[string, NodeSpec[], Record<string, WeightSpec>, (values: number[]) => number[]]>([
    ['MatMul', [{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a }, (y) => y],
    [
      'Gemm with a transposed matrix, a factor and a bias',
      [{ op: 'Gemm', inputs: ['x', 'a', 'b'], outputs: ['y'], ints: { transB: 1 }, floats: { alpha: 0.5 } }],
      { a: transposed(a), b: bias },
      (y) => withBias(y, 0.5),
    ],
    [
      'Transpose of a matrix',
      [
        { op: 'Transpose', inputs: ['a'], outputs: ['t'], ints: { perm: [1, 0] } },
        { op: 'MatMul', inputs: ['x', 't'], outputs: ['y'] },
      ],
      { a: transposed(a) },
      (y) => y,
    ],
    [
      'matrix of a Constant',
      [
        { op: 'Constant', outputs: ['a'], tensors: { value: a } },
        { op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] },
      ],
      {},
      (y) => y,
    ],
  ])('%s: as computed by hand', async (_, nodes, weights, finish) => {
    const lowered = await quantise(model(nodes, weights));
    const x = batch(5);
    for (const level of [undefined, 'disabled'] as const)
      close(await run(lowered.model, x, level), finish(reference(x, a)));
    expect(lowered.report).toMatchObject({
      precision: 'int8',
      nodes: 1,
      converted: 1,
      kept: [],
      measured: null,
    });
    // Nothing of the float32 matrix is left.
    expect(lowered.model.nodes.map(({ opType }) => opType)).not.toContain('Transpose');
    expect(
      lowered.model.namedParameters().every(({ dtype, dims }) => dims.length < 2 || dtype === 'int8'),
    ).toBe(true);
  });

  it.each([
    ['a square matrix', K],
    ['another one', N],
  ])('%s that is read both ways, as tied weights are: each way by its own columns', async (_, columns) => {
    const tied = matrix(K, columns);
    const nodes: NodeSpec[] = [
      { op: 'MatMul', inputs: ['x', 'a'], outputs: ['code'] },
      { op: 'Gemm', inputs: ['code', 'a'], outputs: ['y'], ints: { transB: 1 } },
    ];
    const lowered = await quantise(model(nodes, { a: tied }, { columns: K }));
    const x = batch(5);
    const code = Float32Array.from(reference(x, tied));
    const { dims, values } = transposed(tied) as typeof tied;
    const back = reference({ dtype: 'float32', dims: [5, columns], data: code }, { dims, values });
    close(await run(lowered.model, x), back);
    expect(lowered.report).toMatchObject({ nodes: 2, converted: 1 });
  });

  it('gives a row the same bits in any batch', async () => {
    const { model: lowered } = await quantise(
      model([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a }),
    );
    const x = batch(7);
    // A row a thousand times as large would take all levels of a scale that rows share.
    x.data.subarray(0, K).forEach((value, i) => (x.data[i] = value * 1000));
    const together = await run(lowered, x);
    for (let row = 0; row < 7; row++) {
      const alone = { dtype: 'float32', dims: [1, K], data: x.data.slice(row * K, (row + 1) * K) } as const;
      expect(await run(lowered, alone)).toEqual(together.slice(row * N, (row + 1) * N));
    }
  });

  it('keeps what is not finite in its row, and rows of zeros', async () => {
    const { model: lowered } = await quantise(
      model([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a }),
    );
    const x = batch(5);
    const clean = await run(lowered, x);
    x.data[3] = NaN;
    x.data[K + 7] = Infinity;
    x.data.fill(0, 2 * K, 3 * K);
    x.data.subarray(3 * K, 4 * K).forEach((value, i) => (x.data[3 * K + i] = value * 1e-25));
    for (const level of [undefined, 'disabled'] as const) {
      const y = await run(lowered, x, level);
      const row = (k: number): Float32Array => y.slice(k * N, (k + 1) * N);
      expect(row(0).every(Number.isNaN)).toBe(true);
      expect(row(1).some(Number.isFinite)).toBe(false);
      expect(row(2).every((value) => value === 0)).toBe(true);
      expect(row(3).every((value, i) => Math.abs(value - clean[3 * N + i]! * 1e-25) <= 1e-30)).toBe(true);
      expect(row(4)).toEqual(clean.slice(4 * N));
    }
  });

  it('rounds a tensor once that several products read, and keeps a matrix once', async () => {
    const nodes = ['q', 'k', 'v'].map((name, i) => ({
      op: 'MatMul',
      name: `attention/${name}`,
      inputs: ['x', i === 2 ? 'a' : 'b'],
      outputs: [name],
    }));
    const bytes = model([...nodes, { op: 'Sum', inputs: ['q', 'k', 'v'], outputs: ['y'] }], {
      a,
      b: matrix(K, N, 2),
    });
    const { model: lowered, report } = await quantise(bytes);
    const count = (operator: string): number =>
      lowered.nodes.filter(({ opType }) => opType === operator).length;
    expect(report).toMatchObject({ nodes: 3, converted: 2 });
    expect([count('QuantizeLinear'), count('MatMulInteger'), count('MatMul')]).toEqual([1, 3, 0]);
    // The names that requests use stay: the last node of a product has its name, and its tensor.
    const { outputs } = await createFeatureExtractor(lowered, ['attention/q'], { outputDtype: 'keep' });
    expect(outputs[0]?.tensor).toBe('q');
    expect(
      cosineOf(
        { dims: [4], data: await run(lowered, batch(4)) },
        { dims: [4], data: await run(bytes, batch(4)) },
      ),
    ).toBeGreaterThan(0.9998);
  });

  it('drops weights of other files, and saves without them', async () => {
    writeFileSync(join(scratch, 'w.bin'), Buffer.from(Float32Array.from(a.values).buffer));
    const external = { location: 'w.bin', offset: '0', length: String(4 * K * N) };
    const path = join(scratch, 'external.onnx');
    writeFileSync(
      path,
      model([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a: { dims: [K, N], external } }),
    );
    const { model: lowered, report } = await quantise(path);
    const elsewhere = join(mkdtempSync(join(scratch, 'other-')), 'int8.onnx');
    await lowered.save(elsewhere);
    expect(report.bytesAfter).toBeLessThan(0.6 * report.bytesBefore);
    close(await run(await openModel(elsewhere), batch(3)), reference(batch(3), a));
  });

  it('keeps a matrix that is an output, behind the Transpose that a product reads', async () => {
    const bytes = model(
      [
        { op: 'Transpose', inputs: ['w'], outputs: ['t'], ints: { perm: [1, 0] } },
        { op: 'MatMul', inputs: ['x', 't'], outputs: ['y'] },
      ],
      { w: transposed(a) },
    );
    const { model: lowered } = await lowerPrecision(await pruneModel(bytes, ['y', 'w']), {
      precision: 'int8',
    });
    await using extractor = await createFeatureExtractor(await lowered.bytes(), ['y', 'w']);
    const { y, w } = await extractor.run(batch(3));
    close(y!.data as Float32Array, reference(batch(3), a));
    expect(w!.dims).toEqual([N, K]);
  });

  it('is tidy and verified as part of a pruned model', async () => {
    const bytes = model(
      [
        { op: 'Relu', inputs: ['p'], outputs: ['r'], name: 'act' },
        { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'], name: 'fc1' },
        { op: 'MatMul', inputs: ['r', 'b'], outputs: ['y'], name: 'fc2' },
      ],
      { a, b: matrix(N, N, 3) },
    );
    for (const tidy of [false, true]) {
      const exact = await pruneModel(bytes, { fc2: 'features' }, { tidy });
      const { model: lowered, report } = await lowerPrecision(exact, { precision: 'int8' });
      expect(lowered.plan).toMatchObject({
        kept: { nodes: ['act'], bytes: report.bytesAfter },
        dropped: { nodes: ['fc1', 'fc2'], initializers: ['a', 'b'] },
      });
      expect(lowered.plan.notes.at(-1)).toMatch(/^int8: 2 of 2 products with constants compute in 8 bits/);
      const verified = await verifyModel(lowered);
      expect(verified.isEqual).toBe(false);
      expect(verified.maxRelative).toBeLessThan(0.05);
      expect(verified.tolerance).toBe(0.25);
      const again = await lowerPrecision(lowered, { precision: 'int8', keep: ['fc1'] });
      expect(again.report).toMatchObject({ nodes: 1, bytesBefore: report.bytesBefore });
    }
  });
});

describe('what stays in float32', () => {
  const weights = {
    a: matrix(K, 1024),
    c: matrix(K, N, 4),
    narrow: matrix(K, 8),
    left: matrix(N, K, 6),
    stack: { dims: [1, K, N], values: numbers(K * N, 2) },
    endless: { dims: [K, N], values: [Infinity, ...numbers(K * N - 1, 1)] },
    bias: numbers(N, 2),
  };
  const nodes: NodeSpec[] = [
    { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [1, 0] } },
    { op: 'MatMul', name: 'good', inputs: ['x', 'a'], outputs: ['y0'] },
    { op: 'MatMul', name: 'head.fc', inputs: ['x', 'c'], outputs: ['y1'] },
    { op: 'MatMul', name: 'narrow', inputs: ['x', 'narrow'], outputs: ['y2'] },
    { op: 'MatMul', name: 'left', inputs: ['left', 't'], outputs: ['y3'] },
    { op: 'MatMul', name: 'stack', inputs: ['x', 'stack'], outputs: ['y4'] },
    { op: 'MatMul', name: 'endless', inputs: ['x', 'endless'], outputs: ['y5'] },
    { op: 'Gemm', name: 'scaled', inputs: ['x', 'c', 'bias'], outputs: ['y6'], floats: { beta: 0.5 } },
    { op: 'Gemm', name: 'turned', inputs: ['t', 'c'], outputs: ['y7'], ints: { transA: 1 } },
    { op: 'MatMul', name: 'attention', inputs: ['x', 't'], outputs: ['y8'] },
  ];
  const everything = modelBytes({
    inputs: [{ name: 'x', dims: ['n', K] }],
    outputs: nodes
      .slice(1)
      .map(({ outputs: [name] }) => ({ name: name!, dims: name === 'y4' ? [1, 'n', N] : ['a', 'b'] })),
    nodes,
    initializers: weights,
  });

  it('has a reason each', async () => {
    const { model: lowered, report } = await quantise(everything, { keep: ['head.fc'] });
    expect(report).toMatchObject({ nodes: 1, converted: 1, tensors: 7 });
    expect(Object.fromEntries(report.kept.map(({ node, reason }) => [node, reason]))).toEqual({
      'head.fc': 'you keep it (keep)',
      narrow: `its matrix is small (${K} × 8)`,
      left: 'its constant matrix is on the left',
      stack: 'its constant is not one matrix',
      endless: 'its matrix has values that are not finite',
      scaled: 'it scales its bias',
      turned: 'it transposes what it reads',
    });
    await using exact = await createFeatureExtractor(everything, ['y1', 'y3', 'y6', 'y8']);
    await using other = await createFeatureExtractor(lowered, ['y1', 'y3', 'y6', 'y8']);
    expect(await other.run(batch(3))).toEqual(await exact.run(batch(3)));
  });

  it('is everything where 8 bits do not help', async () => {
    const unsupported = (reason: RegExp): object => ({
      code: 'PRECISION_UNSUPPORTED',
      message: expect.stringMatching(reason),
      details: { precision: 'int8', engine: 'onnxruntime' },
    });
    await expect(quantise(tinyResNet())).rejects.toMatchObject(unsupported(/only \d+ % of the weights/));
    await expect(quantise(everything, { keep: ['good'] })).rejects.toMatchObject(unsupported(/only 1\d %/));
    const relu = model([{ op: 'Relu', inputs: ['x'], outputs: ['y'] }], {}, { columns: K });
    await expect(quantise(relu)).rejects.toMatchObject(unsupported(/only 0 %/));
    const old = model(
      [{ op: 'MatMul', inputs: ['x', 'c'], outputs: ['y'] }],
      { c: matrix(K, N) },
      { opset: 10 },
    );
    await expect(quantise(old)).rejects.toMatchObject(unsupported(/operator set 10/));
    const { model: half } = await lowerPrecision(everything);
    await expect(quantise(half)).rejects.toMatchObject(unsupported(/only 0 %/));
  });

  it('refuses options that mean nothing', async () => {
    const invalid = (option: string): object => ({ code: 'OPTION_INVALID', details: { option } });
    await expect(quantise(everything, { keep: ['head'] })).rejects.toMatchObject(invalid('keep'));
    await expect(quantise(everything, { convert: ['Softmax'] })).rejects.toMatchObject(invalid('convert'));
    await expect(quantise(everything, { samples: 4 as never })).rejects.toMatchObject(invalid('samples'));
    await expect(quantise(everything, { samples: [] })).rejects.toMatchObject(invalid('samples'));
    await expect(quantise(everything, { minCosine: 2 })).rejects.toMatchObject(invalid('minCosine'));
    await expect(lowerPrecision(everything, { samples: [batch(1)] })).rejects.toMatchObject(
      invalid('samples'),
    );
    await expect(quantise(everything, { samples: [batch(1, 5, 3)] })).rejects.toMatchObject({
      code: 'RUN_FAILED',
    });
  });
});

describe('products chosen on samples', () => {
  const a = matrix(K, N);
  /** Each column is one large value and many small ones, of which 8 bits leave nothing. The large ones meet zeros. */
  const lossy: WeightSpec = {
    dims: [N, N],
    values: numbers(N * N, 3).map((value, i) => (i < N ? 1000 : value * 0.5)),
  };
  const bytes = model(
    [
      { op: 'MatMul', name: 'fc1', inputs: ['x', 'a'], outputs: ['p'] },
      { op: 'Mul', inputs: ['p', 'mask'], outputs: ['q'] },
      { op: 'MatMul', name: 'lossy', inputs: ['q', 'l'], outputs: ['r'] },
      { op: 'MatMul', name: 'fc2', inputs: ['r', 'b'], outputs: ['y'] },
    ],
    { a, l: lossy, b: matrix(N, N, 8), mask: [0, ...Array<number>(N - 1).fill(1)] },
  );
  const samples = [batch(1, 11), batch(2, 12), batch(1, 13)];

  it('are all of them if they are near enough', async () => {
    const { report } = await quantise(bytes, { samples, minCosine: 0 });
    expect(report.nodes).toBe(3);
    expect(report.measured).toMatchObject([{ output: 'y', samples: 3 }]);
    expect(report.measured![0]!.least).toBeLessThan(0.9);
  });

  it.runIf(addsInt8Exactly)('are measured in outputs of more rows than a call has arguments', async () => {
    const positive = (values: readonly number[]): number[] => values.map(Math.abs);
    const x = { ...batch(2100), data: Float32Array.from(positive(numbers(2100 * K, 3))) };
    const rows = modelBytes({
      inputs: [{ name: 'x', dims: ['n', K] }],
      outputs: [{ name: 'y', dims: ['rows', 1] }],
      nodes: [
        { op: 'MatMul', inputs: ['x', 'w'], outputs: ['h'] },
        { op: 'Reshape', inputs: ['h', 'dims'], outputs: ['y'] },
      ],
      initializers: {
        w: { dims: [K, N], values: positive(numbers(K * N, 1)) },
        dims: { dims: [2], values: [-1, 1], elemType: 'int64' },
      },
    });
    const { report } = await quantise(rows, { samples: [x], minCosine: 0 });
    expect(report.measured).toMatchObject([{ output: 'y', samples: 1 }]);
    // Rows of one number: the smaller divided by the larger.
    expect(report.measured![0]!.least).toBeCloseTo(0.9948, 3);
  });

  it.runIf(addsInt8Exactly)('leave out what loses most, and measure what is left', async () => {
    async function* stream(): AsyncGenerator<Tensor> {
      yield* samples;
    }
    const { model: lowered, report } = await quantise(bytes, { samples: stream(), minCosine: 0.999 });
    expect(report).toMatchObject({
      nodes: 2,
      kept: [{ node: 'lossy', reason: expect.stringMatching(/loses too much/) }],
    });
    expect(report.kept[0]!.cosine).toBeLessThan(0.9);
    const cosines = await Promise.all(
      samples.map(async (x) => {
        const dims = [x.dims[0]!, N];
        return cosineOf({ dims, data: await run(lowered, x) }, { dims, data: await run(bytes, x) });
      }),
    );
    expect(Math.min(...cosines)).toBeGreaterThanOrEqual(0.999);
    expect(report.measured![0]!.least).toBeCloseTo(Math.min(...cosines), 5);
  });

  it('are refused if none can be computed so', async () => {
    await expect(quantise(bytes, { samples, minCosine: 1 })).rejects.toMatchObject({
      code: 'PRECISION_TOO_LOW',
      details: { output: 'y', minCosine: 1 },
    });
  });

  it('stop with the signal', async () => {
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(quantise(bytes, { samples, signal })).rejects.toThrow('enough');
  });
});

describe('extractors in int8', () => {
  const bytes = model([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a: matrix(K, N) });

  it.runIf(addsInt8Exactly)('run a lowered model', async () => {
    await using exact = await createFeatureExtractor(bytes, ['y']);
    const { model: lowered } = await lowerPrecision(exact.model, { precision: 'int8' });
    await using int8 = await createFeatureExtractor(lowered);
    const x = batch(4);
    const [a, b] = [await exact.run(x), await int8.run(x)];
    expect(int8.precision).toBe('int8');
    expect(b).not.toEqual(a);
    expect(cosineOf(b['y']!, a['y']!)).toBeGreaterThan(0.9999);
  });

  it.each([
    { device: 'webgpu' },
    { device: 'cuda' },
    { devices: ['cpu', 'auto'] },
    { engine: 'openvino' },
  ] as const)('are refused on %j', async (place) => {
    const { model: lowered } = await lowerPrecision(await pruneModel(bytes, ['y']), { precision: 'int8' });
    await expect(createFeatureExtractor(lowered, undefined, place)).rejects.toMatchObject({
      code: 'PRECISION_UNSUPPORTED',
    });
  });
});
