/** Training: gradients on devices, and the optimizer's steps on the host. */
import { TapirError } from '../../base/errors.js';
import { checkIterable, checkText, givenFields, type Options } from '../../base/checks.js';
import { readOptions, signal, type Fields } from '../../base/options.js';
import { Internals } from '../../run/model/open/internals.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { checkSameRows, readBatch } from '../../onnx/tensor/batch.js';
import { readRunInput } from '../../extract/replicas/read-run-input.js';
import { mismatch, nameTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { checkOnePiece, splitBatch } from '../../extract/replicas/batch-pieces.js';
import type { RunInput } from '../../extract/replicas/run-options.js';
import type { BatchGradients } from './runs/gradient-runs.js';
import { prepareTarget, type PreparedTarget, type Target } from './losses/targets.js';
import { inTorchLayout } from './runs/trained-tensors.js';
import type { TrainingState } from './runs/training-state.js';
import type { TrainingSessions } from './runs/training-sessions.js';
import type { TrainerSetup } from './runs/trainer-options.js';

/** Rows and what they should give. */
export interface TrainBatch {
  /** A tensor, or tensors by input name, as for `extractor.run`. */
  readonly input: RunInput;
  /**
   * Class indices (a list of numbers, or int64 or int32 `[N, …]`), or float32 of the output's dims: class probabilities, numbers from 0 to
   * 1, or values. Which of them is the loss's matter.
   */
  readonly target: Target;
}

/** What stops a step or an evaluation. */
export interface TrainRunOptions {
  /**
   * Rejects with its reason when it fires. The weights are then as before the step.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

/** A finished step. */
export interface StepResult {
  /** Its number, from 1. */
  readonly step: number;
  /** The loss before the step. */
  readonly loss: number;
  readonly rows: number;
  /** Rows (and positions) whose highest score is at the target's class; null for targets that are no classes. */
  readonly correct: number | null;
  /** The learning rate of the step: that of the first group. */
  readonly lr: number;
  /** The length of all gradients together, before they were clipped; null without `clipNorm`. */
  readonly gradientNorm: number | null;
}

/** How a model does on rows. */
export interface Evaluation {
  /** The loss: the mean over batches, weighted as the loss weights its terms. */
  readonly loss: number;
  readonly rows: number;
  /** The share of rows (and positions) whose highest score is at the target's class; null for targets that are no classes. */
  readonly accuracy: number | null;
}

/** Batches to evaluate. */
export type EvaluationSource = TrainBatch | Iterable<TrainBatch> | AsyncIterable<TrainBatch>;

interface TrainerState {
  readonly model: OnnxModel;
  readonly setup: TrainerSetup;
  readonly state: TrainingState;
  readonly sessions: TrainingSessions;
}

const trainerInternals: Internals<Trainer, TrainerState> = new Internals(
  'trainer',
  'what createTrainer gives',
);

let newTrainer: (state: TrainerState) => Trainer;

const RUN_FIELDS: Fields<TrainRunOptions> = { signal };

/** A model in training. Make one with {@link createTrainer}. */
export class Trainer {
  /** The model's inputs. */
  readonly inputs: readonly TensorInfo[];
  /** What is trained, by torch's names, in execution order. */
  readonly parameters: readonly string[];
  #isClosed = false;
  /** The call in progress: they run one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  static {
    newTrainer = (state) => new Trainer(state);
  }

  private constructor(state: TrainerState) {
    trainerInternals.set(this, state);
    this.inputs = state.model.inputs;
    this.parameters = state.state.parameters.map(({ tensor }) => tensor.name);
  }

  /** The number of finished steps. */
  get steps(): number {
    return trainerInternals.of(this).state.steps;
  }

  /**
   * Trains one step: the gradients of the batch, on all devices, then the optimizer. If it fails, the weights are as before.
   *
   * @throws {@link TapirError} `LOSS_NOT_FINITE` if the loss is infinite or no number, or with `clipNorm` the length of its gradients; `INPUT_MISMATCH` for
   * tensors that do not suit the model or the loss; `REPLICA_FAILED`; `CLOSED`.
   */
  async step(batch: TrainBatch, given: Options<TrainRunOptions> = {}): Promise<StepResult> {
    const options = readOptions(RUN_FIELDS, given, 'step');
    return await this.#inTurn(() => this.#step(batch, options.signal));
  }

  async #step(batch: TrainBatch, signal: AbortSignal | undefined): Promise<StepResult> {
    const { setup, state, sessions } = trainerInternals.of(this);
    const { pieces, target, rows } = this.#split(batch, setup.accumulate);
    signal?.throwIfAborted();
    const runs = await sessions.gradients();
    const found = await runs.run(pieces, 1 / target.divisor, signal);
    const loss = lossOf(found, target);
    const step = state.steps + 1;
    if (!Number.isFinite(loss)) throw notFinite(step, 'the loss', loss);
    const { lr, gradientNorm } = state.update(found, setup, (norm) =>
      notFinite(step, "the gradients' length", norm),
    );
    return { step, loss, rows, correct: countCorrect(found, target), lr, gradientNorm };
  }

  /**
   * The loss of batches, with the present weights and the norms' running statistics. Nothing is trained.
   *
   * @throws {@link TapirError} as {@link Trainer.step}; `INPUT_MISMATCH` if there is no batch.
   */
  async evaluate(source: EvaluationSource, given: Options<TrainRunOptions> = {}): Promise<Evaluation> {
    const options = readOptions(RUN_FIELDS, given, 'evaluate');
    return await this.#inTurn(() => this.#evaluate(source, options.signal));
  }

  async #evaluate(source: EvaluationSource, signal: AbortSignal | undefined): Promise<Evaluation> {
    const { sessions } = trainerInternals.of(this);
    const total = { loss: 0, weight: 0, rows: 0, correct: 0, places: 0 };
    for await (const batch of batchesOf(source)) {
      signal?.throwIfAborted();
      const { pieces, target, rows } = this.#split(batch, undefined);
      const found = await sessions.evaluate(pieces, signal);
      total.loss += lossOf(found, target) * target.divisor;
      total.weight += target.divisor;
      total.rows += rows;
      total.correct += countCorrect(found, target) ?? 0;
      total.places += target.labels?.reduce((count, label) => count + (label < 0 ? 0 : 1), 0) ?? 0;
    }
    if (total.rows === 0) throw mismatch('batches', 'at least one batch with rows', 'none');
    return {
      loss: total.loss / total.weight,
      rows: total.rows,
      accuracy: total.places === 0 ? null : total.correct / total.places,
    };
  }

  /** The model with the present weights, as {@link openModel} gives one. All else are the bytes of the given file. */
  model(): Promise<OnnxModel> {
    return trainerInternals.of(this).state.model();
  }

  /** All parameters and buffers of the model by torch's names, in torch's layout, and what is trained by other names: copies. */
  async stateDict(): Promise<Map<string, Tensor>> {
    const model = await this.model();
    const kept = model
      .namedParameters()
      .filter(({ kind, origin }) => kind !== 'constant' && origin.kind !== 'folded');
    const read = await Promise.all(
      kept.map(async (parameter) => [parameter.name, await parameter.read()] as const),
    );
    const state = new Map<string, Tensor>(read);
    for (const { tensor } of trainerInternals.of(this).state.parameters)
      if (!state.has(tensor.name)) state.set(tensor.name, inTorchLayout(tensor, tensor.values.slice()));
    return state;
  }

  /**
   * Saves a checkpoint into a folder: weights and the optimizer's state as safetensors, in torch's layout, and a JSON. A checkpoint that is
   * there is replaced as a whole: killed at any moment, the folder holds the former one or the new one.
   *
   * @param notes - What to keep beside it, such as the epoch.
   * @throws {@link TapirError} `OUTPUT_UNWRITABLE`.
   */
  async save(folder: string, notes: Readonly<Record<string, unknown>> = {}): Promise<void> {
    checkText('folder', folder);
    return await this.#inTurn(() => trainerInternals.of(this).state.save(folder, notes));
  }

  /**
   * Goes on from a checkpoint of the same model, parameters and optimizer: on the CPU bit for bit as if it had never stopped.
   *
   * @returns The notes that were saved with it.
   * @throws {@link TapirError} `CHECKPOINT_INVALID` for a missing or damaged checkpoint, and for that of another training.
   */
  async resume(folder: string): Promise<Readonly<Record<string, unknown>>> {
    checkText('folder', folder);
    return await this.#inTurn(() => trainerInternals.of(this).state.resume(folder));
  }

  /** Waits for the call in progress, and ends the sessions. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#last.catch(() => undefined);
    await trainerInternals.of(this).sessions.close();
  }

  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Runs a call after those before it. */
  #inTurn<Result>(call: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(() => {
      if (this.#isClosed)
        throw new TapirError('CLOSED', 'the trainer is closed', { details: { what: 'trainer' } });
      return call();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Reads a batch, and splits it over devices. */
  #split(labelled: TrainBatch, most: number | undefined) {
    const { input, target: given } = givenFields(labelled, 'batch');
    const { setup, sessions } = trainerInternals.of(this);
    const { loss, place } = sessions.setup;
    const target = prepareTarget(setup.loss, loss.dims, given);
    const targets = loss.targets.map((name): TensorInfo => ({ name, dtype: 'float32', dims: loss.dims }));
    const feeds = [
      ...readRunInput(this.inputs, input),
      ...target.fed.map((tensor, i) => nameTensor(loss.targets[i]!, tensor)),
    ];
    const batch = readBatch([...this.inputs, ...targets], feeds, 0);
    checkSameRows(batch);
    if (batch.rows === 0) throw mismatch('batch', 'at least one row', 'none');
    const pieces = splitBatch(batch, place.devices.length, place.split, most);
    if (setup.batchNorm === 'batch' && most === undefined) checkOnePiece(batch, pieces);
    return { pieces, target, rows: batch.rows ?? 1 };
  }
}

type Found = Pick<BatchGradients, 'lossSum' | 'predicted'>;

/** The batches of an evaluation: one, or an (async) iterable of them. Throws `OPTION_INVALID`. */
function batchesOf(source: EvaluationSource): Iterable<TrainBatch> | AsyncIterable<TrainBatch> {
  if (typeof source === 'object' && source !== null && 'input' in source) return [source];
  return checkIterable('source', source, 'a batch { input, target }, or an (async) iterable of batches');
}

function lossOf({ lossSum }: Found, { constant, divisor }: PreparedTarget): number {
  return (lossSum + constant) / divisor;
}

function countCorrect({ predicted }: Found, { labels }: PreparedTarget): number | null {
  if (!labels || !predicted) return null;
  return labels.reduce((count, label, at) => count + (Number(predicted[at]) === label ? 1 : 0), 0);
}

function notFinite(step: number, what: string, value: number): TapirError<'LOSS_NOT_FINITE'> {
  return new TapirError(
    'LOSS_NOT_FINITE',
    `${what} is ${value} in step ${step}; the weights are as before it. Lower the learning rate, set clipNorm, or look for NaN in the batch`,
    { details: { step, value: String(value) } },
  );
}

export { newTrainer };
