/** torch's optimizers through a whole trainer: the gradients of the runs come out of a graph, and rates from a schedule. */
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { floats, linearModel } from '../../support/linear-models.js';
import { givenOf, optimizerRuns } from '../../support/train-fixtures.js';

const { parameter, gradients, runs } = optimizerRuns;
const count = parameter.length;
const dims = [1, count];
/** y = 0 · x + bias. */
const model = linearModel({
  sizes: [count, 1],
  weight: parameter.map(() => 0),
  bias: parameter,
});
const input = floats([1, 1], [0]);

describe('optimizers in a trainer', () => {
  const steady = runs.filter(({ momentum }) => momentum === undefined);

  it.each(steady.map((run) => [run.kind, JSON.stringify(run.options), run] as const))(
    '%s %s',
    async (_kind, _options, run) => {
      await using trainer = await createTrainer(model, {
        // Σ t · (ln t − y): its gradient is −t.
        loss: { kind: 'kl', reduction: 'sum' },
        optimizer: givenOf(run),
        parameters: 'fc.bias',
      });
      for (const [i, gradient] of gradients.entries()) {
        const target = floats(
          dims,
          gradient.map((slope) => -slope),
        );
        expect((await trainer.step({ input, target })).step).toBe(i + 1);
        const bias = (await trainer.stateDict()).get('fc.bias')!.data as Float32Array;
        for (const [at, expected] of run.after[i]!.entries()) {
          const error = Math.abs(bias[at]! - expected) / Math.abs(expected);
          expect(error, `bias[${at}] after step ${i + 1}`).toBeLessThan(1e-6);
        }
      }
    },
  );

  it('are all five', () => {
    expect(new Set(steady.map(({ kind }) => kind)).size).toBe(5);
  });
});
