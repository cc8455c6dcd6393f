/** Five steps of every optimizer against torch's float64: losses, weights, the norms' statistics. */
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { sharedNote } from '../../support/fixtures.js';
import { someOf } from '../../support/rounds.js';
import { expectSamples, readTrainingModel } from '../../support/trained.js';
import {
  decode,
  hasTraining,
  readTraining,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';

type TorchOptions = Readonly<Record<string, unknown>>;

interface Trajectory {
  readonly id: string;
  readonly optimizer: string;
  /** torch's names. */
  readonly options: TorchOptions;
  readonly losses: readonly number[];
  readonly after: Readonly<
    Record<'step1' | 'step5', Readonly<Record<string, Summary & { readonly drift: number }>>>
  >;
  readonly totalNorms?: readonly number[];
  readonly extra?: {
    readonly trainable?: readonly string[];
    readonly batchNorm?: 'frozen';
    readonly groups?: readonly { readonly parameters: readonly string[]; readonly options: TorchOptions }[];
    readonly lr?: readonly number[];
    readonly clipNorm?: number;
    readonly labelSmoothing?: number;
    readonly accumulate?: number;
  };
}
interface Trajectories {
  readonly batches: readonly { readonly input: StoredTensor; readonly labels: StoredTensor }[];
  readonly runs: readonly Trajectory[];
  /** Where float32 noise decides on steps of full size: indices by parameter. */
  readonly noiseEntries?: Readonly<Record<string, readonly number[]>>;
}

const MODELS = ['resnet-basic', 'vit'] as const;

/** torch's options by our names. */
const named = (options: TorchOptions): TorchOptions =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name === 'weight_decay' ? 'weightDecay' : name, value]),
  );

function optionsOf(
  { optimizer, options, extra = {} }: Trajectory,
  isVit: boolean,
): Parameters<typeof createTrainer>[1] {
  const { lr: rates, groups, trainable } = extra;
  const parameters =
    groups?.map((group) => Object.assign({ parameters: group.parameters }, named(group.options))) ??
    trainable?.map((prefix) => `${prefix}*`) ??
    '*';
  return {
    loss: { kind: 'cross-entropy', labelSmoothing: extra.labelSmoothing ?? 0 },
    optimizer: { kind: optimizer.toLowerCase(), ...named(options) },
    parameters,
    batchNorm: extra.batchNorm ?? (isVit ? 'frozen' : 'batch'),
    schedule: rates && ((step: number) => rates[step]!),
    clipNorm: extra.clipNorm,
    accumulate: extra.accumulate,
  } as Parameters<typeof createTrainer>[1];
}

describe.skipIf(!hasTraining)(`trajectories of torch's optimizers${sharedNote}`, () => {
  const ids = new Set(
    (hasTraining ? readTraining<Trajectories>(`optimizers/${MODELS[0]}.json`).runs : []).map(({ id }) => id),
  );
  for (const model of hasTraining ? MODELS : []) {
    const { batches, runs, noiseEntries = {} } = readTraining<Trajectories>(`optimizers/${model}.json`);
    const shared = model === MODELS[0] ? [] : runs.filter(({ id }) => ids.has(id));
    const own = runs.filter((run) => !shared.includes(run));
    // What both models have runs on the first one.
    it.each([...own, ...someOf(shared, 4)])(`${model}: $id`, async (run) => {
      const bytes = readTrainingModel(`${model}.ts-unfolded.onnx`);
      await using trainer = await createTrainer(bytes, optionsOf(run, model === 'vit'));
      for (const [i, { input, labels }] of batches.entries()) {
        const { loss, gradientNorm } = await trainer.step({ input: decode(input), target: decode(labels) });
        expect(Math.abs(loss / run.losses[i]! - 1), `loss of step ${i + 1}`).toBeLessThan(1e-5);
        if (run.totalNorms)
          expect(Math.abs(gradientNorm! / run.totalNorms[i]! - 1), `norm of step ${i + 1}`).toBeLessThan(
            1e-5,
          );
        else expect(gradientNorm).toBeNull();
        const expected = run.after[`step${i + 1}` as 'step1' | 'step5'];
        if (expected === undefined) continue;
        const state = await trainer.stateDict();
        for (const [name, summary] of Object.entries(expected))
          expectSamples(`${name} after step ${i + 1}`, state.get(name), summary, {
            drift: summary.drift,
            absolute: 1e-9,
            noise: noiseEntries[name],
          });
      }
    });
  }

  it('are 24', () => {
    const all = MODELS.flatMap((model) => readTraining<Trajectories>(`optimizers/${model}.json`).runs);
    expect(all).toHaveLength(24);
  });
});
