/** Gradients of whole models by every loss, exporter and way of splitting a batch, as a trainer takes them, against torch's. */
import type { TrainerOptions } from 'onnx-tapir/train';
import { type Device } from 'onnx-tapir';
import { type Target } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { sharedNote } from '../../support/fixtures.js';
import { expectSamples, readTrainingModel, takeStep, type Drifts } from '../../support/trained.js';
import {
  decode,
  hasTraining,
  readTraining,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';
import { someOf } from '../../support/rounds.js';

type Stored = Readonly<Record<string, Summary | StoredTensor>>;

interface LossCase {
  readonly loss: number;
  readonly gradients: Stored;
  readonly drift: Drifts;
}
interface ModelCase {
  readonly input: StoredTensor;
  readonly labels: StoredTensor;
  readonly target: StoredTensor;
  readonly binary: StoredTensor;
  readonly classWeights: StoredTensor;
  readonly posWeights: StoredTensor;
  readonly labelSmoothing: number;
  readonly frozen: { readonly losses: Readonly<Record<string, LossCase>> };
  readonly train: LossCase & {
    readonly buffersAfter: Stored;
    readonly gradientScale: number;
    readonly mathematicallyZero: readonly string[];
  };
  readonly files: readonly {
    readonly file: string;
    readonly exporter: string;
    readonly parametersWithoutInitializer?: readonly string[];
  }[];
}
interface Accumulation {
  readonly cases: readonly {
    readonly model: string;
    readonly parts: readonly number[];
    readonly loss: number;
    readonly gradients: Stored;
  }[];
}

const MODELS = ['resnet-basic', 'vit', 'unet', 'convnext', 'swin'] as const;
const EXPORTERS = ['ts-unfolded', 'dynamo'] as const;
const LOSSES = [
  'ce-mean',
  'ce-sum',
  'ce-smooth',
  'ce-weights',
  'ce-weights-smooth',
  'mse-mean',
  'mse-sum',
  'bce-mean',
  'bce-posweights-sum',
] as const;

const numbers = (stored: StoredTensor): number[] => [...(decode(stored).data as Float32Array)];

/** The loss of a case, and its targets. */
function lossOf(name: (typeof LOSSES)[number], one: ModelCase): [TrainerOptions['loss'], Target] {
  const reduction = name.endsWith('-sum') ? 'sum' : 'mean';
  if (name.startsWith('mse')) return [{ kind: 'mse', reduction }, decode(one.target)];
  if (name.startsWith('bce')) {
    const posWeight = name.includes('posweights') ? numbers(one.posWeights) : undefined;
    return [{ kind: 'bce-with-logits', reduction, posWeight }, decode(one.binary)];
  }
  const weights = name.includes('weights') ? numbers(one.classWeights) : undefined;
  const labelSmoothing = name.includes('smooth') ? one.labelSmoothing : 0;
  return [{ kind: 'cross-entropy', reduction, weights, labelSmoothing }, decode(one.labels)];
}

function expectGradients(
  gradients: Awaited<ReturnType<typeof takeStep>>['gradients'],
  { gradients: expected, drift }: Pick<LossCase, 'gradients' | 'drift'>,
): void {
  for (const [name, gradient] of gradients)
    expectSamples(name, gradient, expected[name]!, { drift: drift[name] ?? 0, absolute: 1e-6 });
}

describe.skipIf(!hasTraining)(`gradients of models in training${sharedNote}`, () => {
  const models = new Map(
    (hasTraining ? MODELS : []).map((model) => [model, readTraining<ModelCase>(`models/${model}.json`)]),
  );
  const all = MODELS.flatMap((model) =>
    EXPORTERS.flatMap((exporter) => LOSSES.map((loss) => [model, exporter, loss] as const)),
  );
  // Every loss on the first file: a loss does not depend on the model.
  it.each([...all.slice(0, LOSSES.length), ...someOf(all.slice(LOSSES.length), 5)])(
    '%s, %s: %s',
    async (model, exporter, name) => {
      const one = models.get(model)!;
      const { file, parametersWithoutInitializer = [] } = one.files.find((of) => of.exporter === exporter)!;
      const expected = one.frozen.losses[name]!;
      const [loss, target] = lossOf(name, one);
      const parameters = Object.keys(expected.gradients).filter(
        (parameter) => !parametersWithoutInitializer.includes(parameter),
      );
      const { result, gradients } = await takeStep(
        readTrainingModel(file),
        { loss, parameters },
        { input: decode(one.input), target },
      );
      expect(Math.abs(result.loss / expected.loss - 1)).toBeLessThan(1e-5);
      expect([...gradients.keys()].toSorted()).toEqual(parameters.toSorted());
      expectGradients(gradients, expected);
    },
  );
});

describe.skipIf(!hasTraining)(`norms in training mode${sharedNote}`, () => {
  it.each(['resnet-basic', 'resnet-bottleneck', 'mobilenet', 'densenet', 'unet'])('%s', async (model) => {
    const { input, labels, train } = readTraining<ModelCase>(`models/${model}.json`);
    const { result, gradients, after } = await takeStep(
      readTrainingModel(`${model}.ts-unfolded.onnx`),
      { loss: 'cross-entropy', batchNorm: 'batch' },
      { input: decode(input), target: decode(labels) },
    );
    expect(Math.abs(result.loss / train.loss - 1)).toBeLessThan(1e-5);
    expect(gradients.size).toBe(Object.keys(train.gradients).length);
    for (const [name, gradient] of gradients) {
      const isZero = train.mathematicallyZero.includes(name);
      if (isZero)
        for (const value of gradient.data as Float32Array)
          expect(Math.abs(value), name).toBeLessThanOrEqual(1e-5 * train.gradientScale);
      else expectSamples(name, gradient, train.gradients[name]!, { drift: train.drift[name] ?? 0 });
    }
    for (const [name, buffer] of Object.entries(train.buffersAfter))
      if (!name.endsWith('num_batches_tracked')) expectSamples(name, after.get(name), buffer);
  });
});

describe.skipIf(!hasTraining)(`batches in parts${sharedNote}`, () => {
  const cases = hasTraining ? readTraining<Accumulation>('optimizers/accumulation.json').cases : [];
  const ways = ['one after the other', 'on devices'] as const;

  it.each(cases.flatMap((one) => ways.map((way) => [one.model, one.parts, way, one] as const)))(
    '%s: %j, %s',
    async (model, parts, way, { loss, gradients: expected }) => {
      const { input, labels, frozen } = readTraining<ModelCase>(`models/${model}.json`);
      const place =
        way === 'on devices'
          ? { devices: parts.map((_, i): Device => `cpu:${i}`), split: parts }
          : { accumulate: parts[0]! };
      const { result, gradients } = await takeStep(
        readTrainingModel(`${model}.ts-unfolded.onnx`),
        { loss: 'cross-entropy', ...place },
        { input: decode(input), target: decode(labels) },
      );
      expect(Math.abs(result.loss / loss - 1)).toBeLessThan(1e-5);
      expectGradients(gradients, { gradients: expected, drift: frozen.losses['ce-mean']!.drift });
    },
  );
});
