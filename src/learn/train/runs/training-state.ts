/** What a training has learned: weights, the optimizer's state, the norms' statistics, and how many steps they took. */
import { isDeepStrictEqual } from 'node:util';
import { isPlainObject } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { count } from '../../../base/shapes.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { unbiasedStatistics } from '../statistics/channel-moments.js';
import type { NormLayer, NormMoments } from '../statistics/norm-layers.js';
import { checkCounts } from '../statistics/one-pass.js';
import { readCheckpoint, writeCheckpoint } from './checkpoint.js';
import type { BatchGradients } from './gradient-runs.js';
import { clipByNorm } from '../optimizers/clip-gradients.js';
import type { Optimizer, OptimizerState } from '../optimizers/optimizer.js';
import type { TrainerSetup } from './trainer-options.js';
import { inFileLayout, inTorchLayout, withValues, type TrainedTensor } from './trained-tensors.js';

/** A parameter, its optimizer, and what that keeps about it. */
export interface TrainedParameter {
  readonly tensor: TrainedTensor;
  readonly optimizer: Optimizer;
  readonly kept: OptimizerState;
}

/** The running statistics of a norm. */
export interface NormStatistics {
  readonly layer: NormLayer;
  readonly mean: TrainedTensor;
  readonly variance: TrainedTensor;
}

/** What a step takes of the rows of all ranks. */
export interface StepSums extends Pick<BatchGradients, 'gradients'> {
  /** As {@link TrainingState.nextStatistics} gives them. */
  readonly statistics: readonly Float32Array[];
}

/** Where the numbers of a training live. All arrays are changed in place. */
export class TrainingState {
  readonly parameters: readonly TrainedParameter[];
  readonly #norms: readonly NormStatistics[];
  readonly #base: OnnxModel;
  #steps = 0;

  /** @param base - The model in which each tensor has its own initializer. */
  constructor(base: OnnxModel, parameters: readonly TrainedParameter[], norms: readonly NormStatistics[]) {
    this.#base = base;
    this.parameters = parameters;
    this.#norms = norms;
  }

  get steps(): number {
    return this.#steps;
  }

  /** All tensors that training changes. */
  get tensors(): readonly TrainedTensor[] {
    return [...new Map(this.#tensors()).values()];
  }

  /** The norms' statistics after batches with these moments: means and variances in turn. */
  nextStatistics(moments: readonly NormMoments[]): readonly Float32Array[] {
    for (const found of moments) checkCounts(found);
    const next = new Map<Float32Array, Float32Array>();
    const nextOf = (values: Float32Array): Float32Array => {
      const copy = next.get(values) ?? values.slice();
      next.set(values, copy);
      return copy;
    };
    for (const found of moments)
      for (const { layer, mean, variance } of this.#norms) {
        const own = found.get(layer);
        if (!own) continue;
        const latest = unbiasedStatistics(own);
        const blend = (kept: Float32Array, values: Float64Array): void => {
          for (const [c, value] of values.entries())
            kept[c] = (1 - layer.momentum) * kept[c]! + layer.momentum * value;
        };
        blend(nextOf(mean.values), latest.mean);
        blend(nextOf(variance.values), latest.variance);
      }
    // Norms that share statistics get a copy each: ranks add them up in place.
    return this.#norms.flatMap(({ mean, variance }) =>
      [mean, variance].map(({ values }) => nextOf(values).slice()),
    );
  }

  /** Takes a step. `refuse` makes the error for gradients whose length is not finite. */
  update(
    { gradients, statistics }: StepSums,
    { schedule, clipNorm }: Pick<TrainerSetup, 'schedule' | 'clipNorm'>,
    refuse: (norm: number) => Error,
  ): { readonly lr: number; readonly gradientNorm: number | null } {
    const gradientNorm = clipNorm === undefined ? null : clipByNorm(gradients, clipNorm);
    if (gradientNorm !== null && !Number.isFinite(gradientNorm)) throw refuse(gradientNorm);
    const rates = this.parameters.map(({ optimizer }) => schedule.at(this.#steps, optimizer.options.lr));
    this.#steps++;
    for (const [i, { tensor, optimizer, kept }] of this.parameters.entries())
      optimizer.update(tensor.values, gradients[i]!, kept, { step: this.#steps, ...rates[i]! });
    for (const [i, { mean, variance }] of this.#norms.entries()) {
      mean.values.set(statistics[2 * i]!);
      variance.values.set(statistics[2 * i + 1]!);
    }
    return { lr: rates[0]!.lr, gradientNorm };
  }

  /** The model with the present numbers. */
  model(): Promise<OnnxModel> {
    const tensors = new Map(this.#tensors());
    return withValues(this.#base, [...tensors.values()]);
  }

  async save(folder: string, notes: Readonly<Record<string, unknown>>): Promise<void> {
    const tensors = new Map<string, Tensor>();
    for (const [key, { tensor, values }] of this.#arrays()) tensors.set(key, inTorchLayout(tensor, values));
    await writeCheckpoint(folder, { tensors, facts: { ...this.#facts(), steps: this.#steps, notes } });
  }

  async resume(folder: string): Promise<Readonly<Record<string, unknown>>> {
    const { tensors, facts } = await readCheckpoint(folder);
    const { steps, notes, ...others } = facts;
    if (!count(steps) || !isPlainObject(notes))
      throw invalid(folder, 'its steps or notes are missing or damaged');
    const own = this.#facts();
    if (!isDeepStrictEqual(others, own))
      throw invalid(
        folder,
        'it belongs to a training of other parameters, another optimizer, or other norms',
      );
    const read = [...this.#arrays()].map(([key, { tensor, values }]) => {
      const given = tensors.get(key);
      if (!given) throw invalid(folder, `it has no tensor "${key}"`);
      return { values, given: inFileLayout(tensor, given) };
    });
    for (const { values, given } of read) values.set(given);
    this.#steps = steps as number;
    return notes;
  }

  /** All numbers and the notes of a checkpoint, for other ranks. */
  pack(notes: Readonly<Record<string, unknown>>): Uint8Array {
    const arrays = [...this.#arrays()].map(([, { values }]) => bytesOf(values));
    return Buffer.concat([...arrays, Buffer.from(JSON.stringify({ steps: this.#steps, notes }))]);
  }

  /** Takes what {@link pack} gives on another rank of the same training. Returns the notes. */
  unpack(packed: Uint8Array): Readonly<Record<string, unknown>> {
    let at = 0;
    for (const [, { values }] of this.#arrays()) {
      const target = bytesOf(values);
      target.set(packed.subarray(at, at + target.length));
      at += target.length;
    }
    const read = JSON.parse(Buffer.from(packed.subarray(at)).toString()) as Record<string, unknown>;
    this.#steps = read['steps'] as number;
    return read['notes'] as Readonly<Record<string, unknown>>;
  }

  /** What must be the same to go on. */
  #facts() {
    return {
      parameters: this.parameters.map(({ tensor, optimizer }) => ({
        name: tensor.name,
        dims: [...tensor.dims],
        optimizer: optimizer.options.kind,
      })),
      norms: this.#norms.map(({ layer }) => layer.name),
    };
  }

  *#tensors(): Generator<readonly [string, TrainedTensor]> {
    for (const { tensor } of this.parameters) yield [tensor.name, tensor];
    for (const { mean, variance } of this.#norms) {
      yield [mean.name, mean];
      yield [variance.name, variance];
    }
  }

  /** All arrays by their names in a checkpoint. */
  *#arrays(): Generator<
    readonly [string, { readonly tensor: TrainedTensor; readonly values: Float32Array }]
  > {
    for (const [name, tensor] of this.#tensors()) yield [name, { tensor, values: tensor.values }];
    for (const { tensor, kept } of this.parameters)
      for (const [what, values] of Object.entries(kept))
        yield [`optimizer/${what}/${tensor.name}`, { tensor, values }];
  }
}

function invalid(path: string, reason: string): TapirError<'CHECKPOINT_INVALID'> {
  return new TapirError('CHECKPOINT_INVALID', `the checkpoint "${path}" cannot be resumed: ${reason}`, {
    details: { path, reason },
  });
}
