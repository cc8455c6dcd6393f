/** Lowering a model to float16: what is converted and kept, where casts stand, and what is reported. */
import { join } from 'node:path';
import { mkdtempSync, statSync, writeFileSync } from 'node:fs';
import {
  createFeatureExtractor,
  openModel,
  pruneModel,
  verifyModel,
  type OnnxModel,
  type Tensor,
} from 'onnx-tapir';
import { lowerPrecision, type LoweringReport } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { cosineOf } from '../../support/cosine.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../support/graphs.js';

const scratch = scratchFolder();
const X: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [2, 4],
  data: Float32Array.of(1, 2, 3, 4, -1, 0.5, 0, 2),
};

/** A square matrix of small numbers. */
function matrix(scale = 0.1): WeightSpec {
  return { dims: [4, 4], values: Array.from({ length: 16 }, (_, i) => scale * ((i % 5) - 2)) };
}

/** A model of a vector `x`, `[n, 4]`, whose result is `y`. */
function vectorModel(nodes: readonly NodeSpec[], initializers: Record<string, WeightSpec>): Uint8Array {
  const value = (name: string): { name: string; dims: (number | string)[] } => ({ name, dims: ['n', 4] });
  const spec: GraphSpec = { inputs: [value('x')], outputs: [value('y')], nodes, initializers };
  return modelBytes(spec);
}

async function runOn(model: OnnxModel, name = 'y', level: 'all' | 'disabled' = 'disabled'): Promise<Tensor> {
  await using extractor = await createFeatureExtractor(model, [name], {
    session: { graphOptimizationLevel: level },
    outputDtype: 'keep',
  });
  return (await extractor.run(X))[name]!;
}

/** Lowers a model and checks that it computes nearly the same, optimised and not. */
async function lowered(bytes: Uint8Array): Promise<{ model: OnnxModel; report: LoweringReport; y: Tensor }> {
  const exact = await openModel(bytes);
  const { model, report } = await lowerPrecision(exact);
  const y = await runOn(model);
  expect(y.dtype).toBe('float32');
  for (const one of [y, await runOn(model, 'y', 'all')])
    expect(cosineOf(one, await runOn(exact))).toBeGreaterThan(0.9999);
  return { model, report, y };
}

const typesOf = (model: OnnxModel): string[] => model.namedParameters().map(({ dtype }) => dtype);

describe('lowerPrecision', () => {
  it('halves a network whose inputs and outputs stay float32', async () => {
    const exact = await openModel(tinyResNet());
    const { model, report } = await lowerPrecision(exact);
    expect(report.bytesAfter / report.bytesBefore).toBeLessThan(0.6);
    expect(report).toMatchObject({ precision: 'float16', overflows: [], converted: report.tensors });
    expect(report.kept.map(({ operator }) => operator)).toEqual(['GlobalAveragePool']);
    expect([...model.inputs, ...model.outputs].map(({ dtype }) => dtype)).toEqual(['float32', 'float32']);
    expect(model.namedParameters().map(({ name }) => name)).toEqual(
      exact.namedParameters().map(({ name }) => name),
    );
    expect(new Set(typesOf(model))).toEqual(new Set(['float16']));
    const path = join(scratch, 'half.onnx');
    await model.save(path);
    expect(statSync(path).size).toBe(report.bytesAfter);
    // A second time there is nothing left to do.
    const again = await lowerPrecision(path);
    expect(again.report).toMatchObject({ converted: 0, casts: 0, nodes: 0 });
    expect(again.report.bytesAfter).toBe(report.bytesAfter);
  });

  it('casts once per tensor and direction, and not between nodes in float32', async () => {
    const { report } = await lowered(
      vectorModel(
        [
          { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'] },
          { op: 'MatMul', inputs: ['x', 'b'], outputs: ['q'] },
          { op: 'Add', inputs: ['p', 'q'], outputs: ['s'] },
          { op: 'Softmax', inputs: ['s'], outputs: ['t'] },
          { op: 'Reshape', inputs: ['t', 'shape'], outputs: ['u'] },
          { op: 'Exp', inputs: ['u'], outputs: ['v'] },
          { op: 'MatMul', inputs: ['v', 'a'], outputs: ['w'] },
          { op: 'Add', inputs: ['w', 'v'], outputs: ['y'] },
        ],
        { a: matrix(), b: matrix(0.3), shape: { dims: [2], values: [-1, 4], elemType: 'int64' } },
      ),
    );
    // x, s, v and y.
    expect(report.casts).toBe(4);
    expect(report.kept.map(({ operator }) => operator)).toEqual(['Softmax', 'Exp']);
    expect(report).toMatchObject({ tensors: 2, converted: 2, nodes: 5 });
  });

  it('keeps a weight that overflows, with its node, and says so', async () => {
    const bytes = vectorModel(
      [
        { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'], name: 'big' },
        { op: 'MatMul', inputs: ['p', 'b'], outputs: ['y'], name: 'small' },
      ],
      { a: { dims: [4, 4], values: [70_000, -1e6, ...Array<number>(14).fill(1)] }, b: matrix(1e-6) },
    );
    const exact = await openModel(bytes);
    const { model, report } = await lowerPrecision(exact);
    expect(report.overflows).toEqual([{ tensor: 'a', count: 2, largest: 1e6 }]);
    expect(report.kept).toMatchObject([
      { node: 'big', operator: 'MatMul', reason: expect.stringMatching(/2 .*"a" overflow above 65,504/) },
      { node: 'small', operator: 'MatMul', reason: expect.stringMatching(/"b" are too small/) },
    ]);
    expect(report.casts).toBe(0);
    expect((await runOn(model)).data).toEqual((await runOn(exact)).data);
  });

  it('counts what becomes zero or loses digits', async () => {
    const values = [1e-9, -1e-9, 2e-5, ...Array<number>(13).fill(0.25)];
    const { report } = await lowered(
      vectorModel([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a: { dims: [4, 4], values } }),
    );
    expect(report.underflows).toEqual([{ tensor: 'a', zeros: 2, subnormals: 1, elements: 16 }]);
  });

  it('computes with an epsilon, a square and a divisor near zero in float32', async () => {
    const { report, y } = await lowered(
      vectorModel(
        [
          { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'] },
          { op: 'Mul', inputs: ['p', 'p'], outputs: ['q'] },
          { op: 'Add', inputs: ['q', 'epsilon'], outputs: ['r'] },
          { op: 'Sqrt', inputs: ['r'], outputs: ['s'] },
          { op: 'Div', inputs: ['p', 's'], outputs: ['y'] },
        ],
        { a: matrix(200), epsilon: [1e-12] },
      ),
    );
    expect(report.kept.map(({ reason }) => reason)).toEqual(['a square overflows above 255']);
    expect([...y.data].every((value) => Number.isFinite(value))).toBe(true);
  });

  it('gives bodies, and nodes in float32, the float32 tensors they read', async () => {
    const branch: GraphSpec = {
      outputs: [{ name: 'inner', dims: ['n', 4] }],
      nodes: [{ op: 'Add', inputs: ['p', 'scale'], outputs: ['inner'] }],
    };
    const { report, model } = await lowered(
      vectorModel(
        [
          { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'] },
          { op: 'Mul', inputs: ['p', 'scale'], outputs: ['s'] },
          { op: 'Constant', outputs: ['c'], tensors: { value: [1, 2, 3, 4] } },
          { op: 'Add', inputs: ['s', 'c'], outputs: ['d'] },
          { op: 'ReduceMax', inputs: ['d'], outputs: ['m'], ints: { keepdims: 0 } },
          { op: 'Greater', inputs: ['m', 'zero'], outputs: ['is'] },
          { op: 'If', inputs: ['is'], outputs: ['e'], bodies: { then_branch: branch, else_branch: branch } },
          { op: 'Add', inputs: ['d', 'e'], outputs: ['y'] },
        ],
        { a: matrix(), scale: [2, 2, 2, 2], zero: { dims: [], values: [0] } },
      ),
    );
    expect(report.kept.map(({ operator }) => operator)).toEqual(['Greater', 'If']);
    // The body reads "p" and "scale" in float32. "c" is float16 where it stands.
    expect(model.outputs[0]?.dtype).toBe('float32');
    expect(report.converted).toBe(3);
  });

  it('asks ONNX Runtime for types that the file does not tell', async () => {
    const { report } = await lowered(
      vectorModel(
        [
          { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'] },
          { op: 'FastGelu', domain: 'com.microsoft', inputs: ['p'], outputs: ['q'] },
          { op: 'MatMul', inputs: ['q', 'a'], outputs: ['y'] },
        ],
        { a: matrix() },
      ),
    );
    expect(report.kept).toMatchObject([{ operator: 'com.microsoft.FastGelu' }]);
    expect(report).toMatchObject({ nodes: 2, casts: 4 });
  });

  it('moves weights of other files into the model', async () => {
    const path = join(scratch, 'external.onnx');
    writeFileSync(
      join(scratch, 'w.bin'),
      Buffer.from(Float32Array.from({ length: 16 }, (_, i) => i / 16).buffer),
    );
    const external = { location: 'w.bin', offset: '0', length: '64' };
    writeFileSync(
      path,
      vectorModel([{ op: 'MatMul', inputs: ['x', 'a'], outputs: ['y'] }], { a: { dims: [4, 4], external } }),
    );
    const { model, report } = await lowerPrecision(path);
    expect(report.bytesBefore - report.bytesAfter).toBeLessThan(64);
    const elsewhere = join(mkdtempSync(join(scratch, 'other-')), 'half.onnx');
    await model.save(elsewhere);
    expect(
      cosineOf(await runOn(await openModel(elsewhere)), await runOn(await openModel(path))),
    ).toBeGreaterThan(0.9999);
  });

  it('keeps and converts operators as asked', async () => {
    const bytes = vectorModel(
      [
        { op: 'MatMul', inputs: ['x', 'a'], outputs: ['p'] },
        { op: 'Sigmoid', inputs: ['p'], outputs: ['q'] },
        { op: 'Softmax', inputs: ['q'], outputs: ['y'] },
      ],
      { a: matrix() },
    );
    const operatorsOf = async (options: object): Promise<string[]> =>
      (await lowerPrecision(bytes, options)).report.kept.map(({ operator }) => operator);
    expect(await operatorsOf({})).toEqual(['Softmax']);
    expect(await operatorsOf({ keep: ['Sigmoid'] })).toEqual(['Sigmoid', 'Softmax']);
    expect(await operatorsOf({ convert: ['Softmax'] })).toEqual([]);
    const invalid = { code: 'OPTION_INVALID' };
    await expect(lowerPrecision(bytes, { keep: ['Sofmax'] })).rejects.toMatchObject(invalid);
    await expect(lowerPrecision(bytes, { convert: ['Resize'] })).rejects.toMatchObject(invalid);
    await expect(lowerPrecision(bytes, { precision: 'float8' as never })).rejects.toMatchObject(invalid);
  });
});

describe('lowerPrecision of a pruned model', () => {
  it.each([
    [{}],
    [{ pool: 'avg', l2Normalize: true, input: 'image-uint8' } as const],
    [{ inputs: ['layer1'], outputDtype: 'float16' } as const],
  ])('%j: is verified against the float32 graph', async (options) => {
    const exact = await pruneModel(tinyResNet(), { layer3: 'features' }, options);
    const { model, report } = await lowerPrecision(exact);
    expect(model.source).toBe(exact.source);
    expect(model.plan.kept.bytes).toBe(report.bytesAfter);
    expect(model.plan.notes.at(-1)).toMatch(/^float16: \d+ nodes compute in it, 0 stay in float32, \d casts/);
    const verified = await verifyModel(model);
    expect(verified.isEqual).toBe(false);
    expect(verified.maxRelative).toBeLessThan(verified.tolerance);
    expect(verified.maxRelativeOptimized).toBeLessThan(verified.tolerance);
    expect((await verifyModel(exact)).isEqual).toBe(true);
  });

  it('gives the same bytes each time', async () => {
    const exact = await pruneModel(tinyResNet(), { layer3: 'features' });
    const [a, b] = [await lowerPrecision(exact), await lowerPrecision(exact)];
    expect(Buffer.compare(await a.model.bytes(), await b.model.bytes())).toBe(0);
  });

  it('lowers the float32 model again, not the result', async () => {
    const { model, report } = await lowerPrecision(await pruneModel(tinyResNet(), ['layer3']));
    const kept = await lowerPrecision(model, { keep: ['Relu'] });
    expect(kept.report.bytesBefore).toBe(report.bytesBefore);
    expect(new Set(kept.report.kept.map(({ operator }) => operator))).toEqual(new Set(['Relu']));
  });
});
