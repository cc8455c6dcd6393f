/** The backward pass as a whole: what it refuses, what must not disturb it, and that it holds nothing else. */
import { readFileSync } from 'node:fs';
import { type Tensor } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { describe, expect, it } from 'vitest';
import { sharedNote } from '../../support/fixtures.js';
import { openSession, runGradients } from '../../support/gradients.js';
import { chain, modelBytes, type GraphSpec } from '../../support/graphs.js';
import {
  decode,
  expectClose,
  hasTraining,
  readTraining,
  trainingPath,
  type Stored,
} from '../../support/training.js';

interface Request {
  readonly id: string;
  readonly model: string;
  readonly wrt: readonly string[];
  readonly of: string | readonly string[];
  readonly expect: 'right' | 'error' | 'error or right' | 'error or zero';
  readonly inputs?: Stored;
  readonly upstream?: Stored;
  readonly gradients?: Stored;
}

const requests = hasTraining ? readTraining<{ cases: readonly Request[] }>('refuse/cases.json').cases : [];
const readModel = (name: string): Uint8Array => readFileSync(trainingPath(`refuse/${name}`));
const decodeAll = (stored: Stored) =>
  Object.fromEntries(Object.entries(stored).map(([name, tensor]) => [name, decode(tensor)]));

const vector = (...values: number[]): Tensor => ({
  dtype: 'float32',
  dims: [values.length],
  data: Float32Array.from(values),
});

describe.runIf(hasTraining)(`requests${sharedNote}`, () => {
  it.each(requests.filter((request) => request.expect === 'right'))('$id is right', async (request) => {
    const { model, wrt, inputs, upstream, gradients } = request;
    const results = await runGradients(readModel(model), wrt, decodeAll(upstream!), decodeAll(inputs!));
    for (const name of wrt) expectClose(name, results[name]!, gradients![name]!);
  });

  it.each([
    ['custom-operator', 'GRADIENT_UNSUPPORTED', /com\.example\.Foo "n"/],
    ['no-rule', 'GRADIENT_UNSUPPORTED', /Det .*nearest place that has a gradient is "t"/],
    ['control-flow', 'GRADIENT_UNSUPPORTED', /If "n": it runs its own graph/],
    ['unknown-wrt', 'NAME_NOT_FOUND', /"nope"/],
    ['unknown-of', 'NAME_NOT_FOUND', /"loss"/],
    ['integer-wrt', 'INPUT_MISMATCH', /"i" is int64/],
    ['integer-of', 'INPUT_MISMATCH', /"y" is int64/],
  ])('%s is refused: %s', async (id, code, message) => {
    const { model, wrt, of } = requests.find((request) => request.id === id)!;
    const attempt = differentiate(readModel(model), { of: [of].flat(), withRespectTo: wrt });
    await expect(attempt).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it('gives zeros, and a note, for what a target does not depend on', async () => {
    const gradients = await differentiate(readModel('independent.onnx'), { of: ['y'], withRespectTo: ['z'] });
    expect(gradients.plan.notes).toEqual(['no target depends on "z": its gradient is zero everywhere']);
    const run = await openSession(await gradients.bytes());
    const tensor = { dtype: 'float32', dims: [3, 4], data: new Float32Array(12).fill(1) } as const;
    const results = await run({ z: tensor, 'gradient/y': tensor });
    expect(results['gradient/z']).toMatchObject({ dims: [3, 4], data: new Float32Array(12) });
  });

  it('uses the mask of the same run for Dropout in training mode', async () => {
    const gradients = await differentiate(readModel('random-dropout.onnx'), {
      of: ['y'],
      withRespectTo: ['x'],
      returnNodes: { y: 'kept' },
    });
    const run = await openSession(await gradients.bytes());
    const x = { dtype: 'float32', dims: [3, 4], data: new Float32Array(12).fill(1) } as const;
    const { kept, ...results } = await run({ x, 'gradient/y': x });
    expect(results['gradient/x']!.data).toEqual(kept!.data);
  });
});

describe('the backward pass', () => {
  const relu = { op: 'Relu', inputs: ['x'], outputs: ['r'] };
  const double = (input: string, output: string) => ({
    op: 'Add',
    inputs: [input, input],
    outputs: [output],
  });

  it('drops what no gradient reads', async () => {
    // The gradient of a sum reads nothing of the graph.
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      nodes: [relu, double('r', 's'), double('s', 'y')],
    };
    const { plan } = await differentiate(modelBytes(spec), { of: ['y'], withRespectTo: ['s'] });
    expect(plan.kept).toMatchObject({ nodes: [], inputs: [], initializers: [] });
    expect(plan.added).toMatchObject({ inputs: ['gradient/y'], nodes: ['tapir/gradient/Sum'] });
  });

  it('adds what arrives over several ways', async () => {
    const nodes = [double('x', 'a'), double('a', 'b'), { op: 'Mul', inputs: ['a', 'b'], outputs: ['y'] }];
    // y = 8x²
    const { x } = await runGradients(
      modelBytes({ inputs: ['x'], outputs: ['y'], nodes }),
      ['x'],
      { y: vector(1, 2) },
      { x: vector(3, 5) },
    );
    expect(x).toMatchObject({ data: Float32Array.of(48, 160) });
  });

  it('takes many nodes', async () => {
    const spec = chain(300);
    const { t0 } = await runGradients(
      modelBytes(spec),
      ['t0'],
      { t300: vector(2, 2, 2) },
      { t0: vector(1, -1, 0) },
    );
    expect(t0!.data).toEqual(Float32Array.of(2, 0, 0));
  });

  it('is differentiable again', async () => {
    const nodes = [
      { op: 'Mul', inputs: ['x', 'x'], outputs: ['square'] },
      { op: 'Mul', inputs: ['square', 'x'], outputs: ['y'] },
    ];
    const first = await differentiate(modelBytes({ inputs: ['x'], outputs: ['y'], nodes }), {
      of: ['y'],
      withRespectTo: ['x'],
    });
    const upstream = { 'gradient/x': vector(1, 1) };
    const inputs = { x: vector(2, 5), 'gradient/y': vector(1, 1) };
    const { x } = await runGradients(await first.bytes(), ['x'], upstream, inputs);
    expect(x!.data).toEqual(Float32Array.of(12, 30));
  });

  it('leaves names of the graph alone', async () => {
    const nodes = [
      { op: 'Exp', inputs: ['x'], outputs: ['tapir/gradient/Mul_output_0'], name: 'tapir/gradient/Mul' },
      { op: 'Exp', inputs: ['tapir/gradient/Mul_output_0'], outputs: ['y'] },
    ];
    const bytes = modelBytes({ inputs: ['x'], outputs: ['y'], nodes });
    const { x } = await runGradients(bytes, ['x'], { y: vector(1) }, { x: vector(0) });
    expect(x!.data[0]).toBeCloseTo(Math.E, 6);
  });
});
