/** Training: gradients on devices, and the optimizer's steps on the host. */
import { TapirError } from '../../base/errors.js';
import { checkIterable, checkText, givenFields, type Options } from '../../base/checks.js';
import { readOptions, signal, type Fields } from '../../base/options.js';
import type {
  Evaluation,
  EvaluationSource,
  StepResult,
  TrainBatch,
  TrainRunOptions,
} from './trainer-calls.js';
import { Internals } from '../../run/model/open/internals.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { checkSameRows, readBatch } from '../../onnx/tensor/batch.js';
import { readRunInput } from '../../extract/replicas/read-run-input.js';
import { mismatch, nameTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { checkOnePiece, splitBatch, type Piece } from '../../extract/replicas/batch-pieces.js';
import type { BatchGradients } from './runs/gradient-runs.js';
import { checkDivisor, prepareTarget, type PreparedTarget } from './losses/targets.js';
import { compareTensors, gather, leaveOnFailure, meet } from './ranks/compare-ranks.js';
import { inTorchLayout } from './runs/trained-tensors.js';
import type { TrainingState } from './runs/training-state.js';
import type { TrainingSessions } from './runs/training-sessions.js';
import type { TrainerSetup } from './runs/trainer-options.js';

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
   * @param batch - In a group, the rows of this rank: the batch is what all ranks pass. Ranks may pass different numbers of rows, and null
   * for no rows.
   * @returns In a group, what happened to the rows of all ranks, the same on each.
   * @throws {@link TapirError} `LOSS_NOT_FINITE` if the loss is infinite or no number, or with `clipNorm` the length of its gradients; `INPUT_MISMATCH` for
   * tensors that do not suit the model or the loss; `REPLICA_FAILED`; `CLOSED`;
   * `RANK_LOST`; `RANKS_DIFFER` if a rank makes another call, or has other weights, which every hundredth step compares.
   */
  async step(batch: TrainBatch | null, given: Options<TrainRunOptions> = {}): Promise<StepResult> {
    const options = readOptions(RUN_FIELDS, given, 'step');
    return await this.#inTurn(() => this.#step(batch, options.signal));
  }

  async #step(batch: TrainBatch | null, signal: AbortSignal | undefined): Promise<StepResult> {
    const { setup, state, sessions } = trainerInternals.of(this);
    const { group } = setup;
    const {
      pieces,
      target,
      rows: own,
    } = await this.#alone(() => {
      const share = this.#share(batch, setup.accumulate);
      signal?.throwIfAborted();
      return share;
    });
    const facts = [own, target.divisor, target.constant, target.labels ? 1 : 0];
    const shared = await this.#alone(() => meet(group, 'step', state.steps, facts, signal));
    const [rows, divisors, constant, ranksWithClasses] = shared as [number, number, number, number];
    if (rows === 0) throw mismatch('batch', 'at least one row', 'none');
    const divisor = setup.loss.reduction === 'sum' ? 1 : divisors;
    checkDivisor(divisor);
    const found = await this.#alone(async () =>
      (await sessions.gradients()).run(pieces, 1 / divisor, signal),
    );
    const counted = [found.lossSum, countCorrect(found, target) ?? 0];
    const [lossSum, correct] = addRows(await this.#alone(() => gather(group, counted, signal)));
    const loss = (lossSum! + constant) / divisor;
    const step = state.steps + 1;
    if (!Number.isFinite(loss)) throw notFinite(step, 'the loss', loss);
    const statistics = await this.#alone(() => this.#sum(found, signal));
    const { lr, gradientNorm } = state.update({ ...found, statistics }, setup, (norm) =>
      notFinite(step, "the gradients' length", norm),
    );
    if (step % COMPARE_STEPS === 0) await this.#alone(() => compareTensors(group, state.tensors, step));
    return { step, loss, rows, correct: ranksWithClasses > 0 ? correct! : null, lr, gradientNorm };
  }

  /** Adds up gradients over ranks, in place. Returns the norms' statistics; `'batch'` keeps those of rank 0, as torch's DDP does. */
  async #sum(
    { gradients, readMoments }: BatchGradients,
    signal: AbortSignal | undefined,
  ): Promise<readonly Float32Array[]> {
    const { setup, state } = trainerInternals.of(this);
    const { group, batchNorm } = setup;
    const statistics = state.nextStatistics(readMoments());
    if (group.size === 1) return statistics;
    const isOfRank0 = batchNorm === 'batch';
    if (isOfRank0 && group.rank !== 0) for (const values of statistics) values.fill(0);
    await group.sum([...gradients, ...(isOfRank0 ? statistics : [])], signal);
    return statistics;
  }

  #alone<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    return leaveOnFailure(trainerInternals.of(this).setup.group, work);
  }

  /**
   * The loss of batches, with the present weights and the norms' running statistics. Nothing is trained. In a group, each rank passes its
   * own batches, as many as it has, and gets the loss of all.
   *
   * @throws {@link TapirError} as {@link Trainer.step}; `INPUT_MISMATCH` if there is no batch.
   */
  async evaluate(source: EvaluationSource, given: Options<TrainRunOptions> = {}): Promise<Evaluation> {
    const options = readOptions(RUN_FIELDS, given, 'evaluate');
    return await this.#inTurn(() => this.#evaluate(source, options.signal));
  }

  async #evaluate(source: EvaluationSource, signal: AbortSignal | undefined): Promise<Evaluation> {
    const { sessions, setup, state } = trainerInternals.of(this);
    const own = [0, 0, 0, 0, 0];
    const all = await this.#alone(async () => {
      for await (const batch of batchesOf(source)) {
        signal?.throwIfAborted();
        const { pieces, target, rows } = this.#split(batch, undefined);
        const found = await sessions.evaluate(pieces, signal);
        const places = target.labels?.reduce((count, label) => count + (label < 0 ? 0 : 1), 0) ?? 0;
        const correct = countCorrect(found, target) ?? 0;
        const told = [found.lossSum + target.constant, target.divisor, rows, correct, places];
        for (const [i, value] of told.entries()) own[i]! += value;
      }
      return meet(setup.group, 'evaluate', state.steps, own, signal);
    });
    const [loss, weight, rows, correct, places] = all as [number, number, number, number, number];
    if (rows === 0) throw mismatch('batches', 'at least one batch with rows', 'none');
    checkDivisor(weight);
    return { loss: loss / weight, rows, accuracy: places === 0 ? null : correct / places };
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
   * In a group, all ranks call it, and rank 0 writes, after the weights of all were compared.
   *
   * @param notes - What to keep beside it, such as the epoch.
   * @throws {@link TapirError} `OUTPUT_UNWRITABLE`; `RANKS_DIFFER`; `RANK_LOST`.
   */
  async save(folder: string, notes: Readonly<Record<string, unknown>> = {}): Promise<void> {
    checkText('folder', folder);
    return await this.#inTurn(async () => {
      const { state, setup } = trainerInternals.of(this);
      const { group } = setup;
      await this.#alone(async () => {
        await meet(group, 'save', state.steps);
        await compareTensors(group, state.tensors, state.steps);
        if (group.rank === 0) await state.save(folder, notes);
        await group.barrier();
      });
    });
  }

  /**
   * Goes on from a checkpoint of the same model, parameters and optimizer: on the CPU bit for bit as if it had never stopped. In a group,
   * all ranks call it, and rank 0 reads.
   *
   * @returns The notes that were saved with it.
   * @throws {@link TapirError} `CHECKPOINT_INVALID` for a missing or damaged checkpoint, and for that of another training.
   */
  async resume(folder: string): Promise<Readonly<Record<string, unknown>>> {
    checkText('folder', folder);
    return await this.#inTurn(() => {
      const { state, setup } = trainerInternals.of(this);
      const { group } = setup;
      return this.#alone(async () => {
        if (group.size === 1) return state.resume(folder);
        await meet(group, 'resume', 0);
        if (group.rank !== 0) return state.unpack(await group.broadcast(new Uint8Array(0)));
        const notes = await state.resume(folder);
        await group.broadcast(state.pack(notes));
        return notes;
      });
    });
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

  /** The rows of this rank. */
  #share(batch: TrainBatch | null, most: number | undefined): Share {
    const { setup } = trainerInternals.of(this);
    if (batch !== null || setup.group.size === 1) return this.#split(batch!, most);
    return { pieces: [], target: { fed: [], divisor: 0, constant: 0, labels: undefined }, rows: 0 };
  }

  /** Reads a batch, and splits it over devices. */
  #split(labelled: TrainBatch, most: number | undefined): Share {
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

/** The rows that this process runs. */
interface Share {
  readonly pieces: readonly Piece[];
  readonly target: PreparedTarget;
  readonly rows: number;
}

/** How often ranks compare checksums of their weights. */
const COMPARE_STEPS = 100;

/** The sums of columns, in the order of rows. */
function addRows(rows: readonly Float64Array[]): number[] {
  return Array.from(rows[0]!, (_, at) => rows.reduce((sum, row) => sum + row[at]!, 0));
}

/** Saves a checkpoint of what this rank has, without the others: what remains where one of them is lost. */
export async function saveAlone(
  trainer: Trainer,
  folder: string,
  notes: Readonly<Record<string, unknown>>,
): Promise<void> {
  await trainerInternals.of(trainer).state.save(folder, notes);
}

/** The batches of an evaluation: one, or an (async) iterable of them. Throws `OPTION_INVALID`. */
function batchesOf(source: EvaluationSource): Iterable<TrainBatch> | AsyncIterable<TrainBatch> {
  if (typeof source === 'object' && source !== null && 'input' in source) return [source];
  return checkIterable('source', source, 'a batch { input, target }, or an (async) iterable of batches');
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
