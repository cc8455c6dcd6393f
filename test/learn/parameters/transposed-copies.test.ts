/** Parameters that a file holds twice, as an exporter folded a transposition: both change, or what needs them is refused. */
import { createFeatureExtractor, openModel, type OnnxModel, type TensorLike } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { loadStateDict } from 'onnx-tapir/parameters';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { floats } from '../../support/linear-models.js';

const P = [1, 2, 3, 4, 5, 6];
const NEW = floats([3, 2], [2, -1, 0, 1, 3, 1]);
const X = floats([1, 2], [1, 10]);

/** y = x · pᵀ · p. The file holds p and what is `held` for pᵀ, as TorchScript's exporter writes it. */
function prototypes(held = [1, 3, 5, 2, 4, 6]): Uint8Array {
  return modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [{ name: 'y', dims: ['n', 2] }],
    initializers: { p: { dims: [3, 2], values: P }, 'onnx::MatMul_4': { dims: [2, 3], values: held } },
    nodes: [
      { op: 'MatMul', name: '/MatMul', inputs: ['x', 'onnx::MatMul_4'], outputs: ['d'] },
      { op: 'MatMul', name: '/MatMul_1', inputs: ['d', 'p'], outputs: ['y'] },
    ],
  });
}

/** x · pᵀ · p for NEW: distances -8, 10, 13. */
const EXPECTED = [-8 * 2 + 13 * 3, 8 + 10 + 13];

async function run(model: OnnxModel, x: TensorLike): Promise<number[]> {
  await using extractor = await createFeatureExtractor(model, { 'tensor:y': 'y' });
  return [...((await extractor.run({ x })).y!.data as Float32Array)];
}

const tied = fixturePath('computed/tied.dynamo.onnx');
const refusal = { code: 'INPUT_MISMATCH', message: expect.stringContaining('optimize=False') };

describe('a transposed copy of a parameter', () => {
  it('is loaded with it', async () => {
    const { model, report } = await loadStateDict(prototypes(), new Map([['p', NEW]]));
    expect(await run(model, X)).toEqual(EXPECTED);
    expect(report.entries).toEqual([{ key: 'p', origin: { kind: 'several' } }]);
  });

  it('is replaced with it, and alone under the name that it is listed by', async () => {
    const model = await openModel(prototypes());
    expect(await run(await model.withParameters({ p: NEW }), X)).toEqual(EXPECTED);
    const both = await model.withParameters({ p: NEW, weight: floats([3, 2], P) });
    expect(await run(both, X)).toEqual([21 * 2 + 65 * 3, -21 + 43 + 65]);
  });

  it('is loaded in a file of dynamo, where the module of the parameter does not read it', async () => {
    const state = new Map(
      Object.entries({ 'emb.weight': [5, 3], 'l.weight': [3, 3], 'l.bias': [3], pos: [3] }).map(
        ([key, dims], k) => {
          const size = dims.reduce((product, one) => product * one, 1);
          return [
            key,
            floats(
              dims,
              Array.from({ length: size }, (_, i) => Math.sin(k + i)),
            ),
          ] as const;
        },
      ),
    );
    const { model } = await loadStateDict(tied, state);
    const read = async (name: string): Promise<readonly number[]> =>
      Array.from(
        (
          await model
            .namedParameters()
            .find((one) => one.name === name)!
            .read()
        ).data as Float32Array,
      );
    const weight = await read('emb.weight');
    const copy = await read('t');
    expect(copy).toEqual(copy.map((_, i) => weight[(i % 5) * 3 + Math.floor(i / 5)]));
  });

  it('refuses gradients and training of both, and of nothing else', async () => {
    for (const [model, name, other] of [
      [prototypes(), 'p', 'tensor:p'],
      [tied, 'emb.weight', 'pos'],
    ] as const) {
      const of = ['tensor:y'];
      // oxlint-disable-next-line no-await-in-loop -- one refusal after the other
      await expect(differentiate(model, { of, withRespectTo: [name] }), name).rejects.toMatchObject(refusal);
      // oxlint-disable-next-line no-await-in-loop -- see above
      expect((await differentiate(model, { of, withRespectTo: [other] })).plan.resolved).toHaveLength(1);
      const options = { loss: 'mse', optimizer: 'sgd' } as const;
      for (const parameters of [name, '*'])
        // oxlint-disable-next-line no-await-in-loop -- see above
        await expect(createTrainer(model, { ...options, parameters }), name).rejects.toMatchObject(refusal);
      // oxlint-disable-next-line no-await-in-loop -- see above
      await using trainer = await createTrainer(model, { ...options, parameters: other });
      expect(trainer.parameters).toEqual([other]);
    }
  });
});

it('a matrix of other values is a parameter for itself', async () => {
  const model = await openModel(prototypes([1, 3, 5, 2, 4, 7]));
  await using trainer = await createTrainer(model, { loss: 'mse', optimizer: 'sgd' });
  expect(trainer.parameters).toHaveLength(2);
  expect(await run(await model.withParameters({ p: NEW }), X)).not.toEqual(EXPECTED);
});
