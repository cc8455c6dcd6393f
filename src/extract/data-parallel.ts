/** One model on several devices: a batch is split over them, the outputs are joined. */
import { checkInteger, invalidOption, withDefaults, type Options } from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import type { ImageNormalization } from '../graph/rewrite/image-input.js';
import { devicesLike } from '../runtime/devices/device-list.js';
import { readDevices, type Device, type ResolvedDevice } from '../runtime/device.js';
import type { Feed } from '../tensor/image-feed.js';
import { gather } from '../tensor/gather.js';
import type { Replica } from '../runtime/replica.js';
import { deviceRows, readSplit, type Split } from '../tensor/split.js';
import type { Tensor } from '../tensor/tensor.js';
import { checkSameRows, readBatch, type Batch } from '../tensor/batch.js';
import { runDynamic, runTasks, type Outputs, type RunOn } from './dispatch.js';
import { internalsOf as extractorInternalsOf, type FeatureExtractor } from './feature-extractor.js';
import type { FeatureInfo } from '../model/feature-info.js';
import { recordOf, type FeatureModel } from './feature-model.js';
import { readFeeds } from '../tensor/read-feeds.js';
import type { ExtractorInternals } from './internals.js';
import { mapInOrder } from './map-in-order.js';
import { PARALLEL_DEFAULTS, readParallelOptions, type ParallelOptions } from './parallel-options.js';
import { openReplicas } from './open-replicas.js';
import { planBatch, type Plan } from './parallel-plan.js';
import { ParallelWarnings } from './parallel-warnings.js';
import type { PrunedModel } from '../model/pruned-model.js';
import { runRange } from '../runtime/run-batch.js';
import { readRunOptions, RUN_DEFAULTS, type RunInput, type RunOptions } from './run-options.js';
import type { TensorInfo } from '../tensor/tensor-info.js';

/** Options of {@link DataParallel.create}. */
export interface DataParallelOptions extends ParallelOptions {
  /**
   * Devices, each at most once; the first one is replica 0.
   * @default all visible GPUs for an extractor on CUDA; else its own device
   */
  readonly devices: readonly Device[] | undefined;
}

/** Options of {@link DataParallel.run}. */
export interface ParallelRunOptions extends RunOptions {
  /**
   * How this batch is split; see {@link ParallelOptions.split}.
   * @default that of the model
   */
  readonly split: Split | undefined;
}

const RUN_WITH_SPLIT: ParallelRunOptions = { ...RUN_DEFAULTS, split: undefined };

/** A device of a data-parallel model and what it has done. */
export interface ReplicaInfo {
  readonly device: string;
  /** `removed` after its lane died, with `onLaneDeath: 'remove'`. */
  readonly state: 'ready' | 'removed';
  /** Runs that are waiting or at work. */
  readonly load: number;
  readonly runs: number;
  readonly failures: number;
  /** How often a dead lane was opened again. */
  readonly restarts: number;
  /** Processes that hold its sessions: this one, or children. */
  readonly pids: readonly number[];
}

interface ParallelState {
  readonly devices: readonly ResolvedDevice[];
  readonly options: ParallelOptions;
}

/** What other files of the package use of a data-parallel model. */
interface Internals<Key extends string> extends ParallelState, ExtractorInternals<Key> {}

let internalsOf: <Key extends string>(parallel: DataParallel<Key>) => Internals<Key>;

/**
 * A feature extractor on several devices, as torch's nn.DataParallel: the batch is split along `dim`, each device runs its part
 * in a session of its own, and the outputs are joined in order. Made by {@link DataParallel.create}, or by
 * {@link createFeatureExtractor} with `devices`.
 *
 * @remarks The outputs equal those of the same parts run on one device bit for bit, and those of the whole batch up to rounding.
 * Sessions stay open between calls; calls may overlap and are worked off in order.
 */
export class DataParallel<Key extends string = string> {
  /** The wrapped extractor. */
  readonly module: FeatureExtractor<Key>;
  /** The model it runs, to save or to inspect. */
  readonly model: PrunedModel;
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /** The outputs, in the order of the request. */
  readonly outputs: readonly FeatureInfo[];
  /** How the graph normalises the pixels it is fed, with `input: 'image-uint8'`; else null. */
  readonly imageNormalization: ImageNormalization | null;
  /** The devices in use, in order. */
  readonly devices: readonly string[];
  /** The devices in use, as one text. */
  readonly device: string;
  /** Version of onnxruntime in use. */
  readonly runtime: string;
  readonly #model: FeatureModel;
  readonly #replicas: readonly Replica[];
  readonly #state: ParallelState;
  readonly #ownsModule: boolean;
  readonly #warnings = new ParallelWarnings();

  static {
    internalsOf = (parallel) => ({
      ...parallel.#state,
      model: parallel.#model,
      sessions: parallel.#replicas.flatMap(({ sessions, facts }) =>
        Array.from({ length: sessions }, () => facts.device),
      ),
      spent: parallel.#replicas.map(({ spent }) => spent),
      runWhole: (feed, signal) => parallel.#run([feed], { ...RUN_WITH_SPLIT, signal, split: 'none' }),
    });
  }

  /** Use {@link DataParallel.create}. */
  constructor(
    module: FeatureExtractor<Key>,
    replicas: readonly Replica[],
    state: ParallelState,
    ownsModule: boolean,
  ) {
    this.module = module;
    this.#model = extractorInternalsOf(module).model;
    this.#replicas = replicas;
    this.#state = state;
    this.#ownsModule = ownsModule;
    this.model = module.model;
    this.inputs = module.inputs;
    this.outputs = module.outputs;
    this.imageNormalization = module.imageNormalization;
    this.devices = replicas.map((replica) => replica.device);
    this.device = this.devices.join(', ');
    this.runtime = replicas[0]!.facts.runtime;
  }

  /**
   * Puts an extractor on several devices.
   *
   * @param extractor - From {@link createFeatureExtractor}; it stays open, and stays yours to close.
   * @param given - See {@link DataParallelOptions}. Session options are the extractor's.
   * @returns The data-parallel model; close it after use.
   * @throws {@link TapirError} `OPTION_INVALID` for a list that is empty or names a device twice; `DEVICE_UNAVAILABLE`;
   * `SESSION_FAILED`.
   *
   * @example Two lanes on the CPU; on GPUs: `['cuda:0', 'cuda:1']`.
   * ```ts
   * import { createFeatureExtractor, DataParallel } from 'onnx-tapir';
   *
   * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'pooled' });
   * const parallel = await DataParallel.create(extractor, { devices: ['cpu:0', 'cpu:1'] });
   * const { pooled } = await parallel.run({ dtype: 'float32', dims: [8, 3, 224, 224], data: new Float32Array(8 * 3 * 224 * 224) });
   * console.log(pooled.dims); // [8, 2048, 1, 1]: rows 0 to 3 from one lane, 4 to 7 from the other
   * await parallel.close();
   * await extractor.close();
   * ```
   */
  static async create<Key extends string>(
    extractor: FeatureExtractor<Key>,
    given: Options<DataParallelOptions> = {},
  ): Promise<DataParallel<Key>> {
    const { devices: wanted, ...rest } = withDefaults(
      { devices: undefined, ...PARALLEL_DEFAULTS } as DataParallelOptions,
      given,
      'DataParallel.create',
    );
    const { model } = extractorInternalsOf(extractor);
    const devices = readDevices('devices', wanted ?? (await devicesLike(extractor.device)));
    const options = readParallelOptions(rest, devices.length);
    const replicas = await openReplicas(model.pruned, devices, model, options);
    return new DataParallel(extractor, replicas, { devices, options }, false);
  }

  /** What each device is doing and has done. */
  get replicas(): readonly ReplicaInfo[] {
    return this.#replicas.map(({ device, isRemoved, load, counts, pids }) => ({
      device,
      state: isRemoved ? 'removed' : 'ready',
      load,
      ...counts,
      pids,
    }));
  }

  /**
   * How many rows each device gets of a batch; 0 for one that is idle. Not known beforehand for `split: 'dynamic'` and `'none'`, for
   * which it throws `OPTION_INVALID`.
   *
   * @param rows - Rows of the batch.
   */
  rowsPerDevice(rows: number): readonly { readonly device: string; readonly rows: number }[] {
    const { split } = this.#state.options;
    if (split === 'dynamic' || split === 'none')
      throw invalidOption(
        'split',
        '"chunk", "balanced" or weights: only their parts are known beforehand',
        split,
      );
    const sizes = deviceRows(
      split,
      checkInteger('rows', rows, 0, Number.MAX_SAFE_INTEGER),
      this.devices.length,
    );
    return this.devices.map((device, i) => ({ device, rows: sizes[i]! }));
  }

  /**
   * Runs the model on all devices.
   *
   * @param input - As for {@link FeatureExtractor.run}. All inputs whose axis `dim` is open in the graph must be equally long along
   * it and are split; the others go to each device as they are.
   * @param given - See {@link ParallelRunOptions}.
   * @returns A tensor per output key, rows in the order of the input. Outputs without axes become a vector, one element per
   * part, with a warning.
   * @throws {@link TapirError} `REPLICA_FAILED` after all devices have settled: the first failure in order, with `cause`, the others in
   * `errors`; `INPUT_MISMATCH`; `BATCH_FIXED`; `OUTPUT_NOT_BATCHED` for an output that has no row per sample;
   * `OUTPUT_NOT_GATHERABLE`; `CLOSED`; the signal's reason if it fires.
   */
  async run(input: RunInput, given: Options<ParallelRunOptions> = {}): Promise<Record<Key, Tensor>> {
    const { split: own, ...rest } = withDefaults(RUN_WITH_SPLIT, given, 'run');
    const split = own === undefined ? undefined : readSplit('split', own, this.devices.length);
    const options = readRunOptions(rest);
    return this.#run(readFeeds(this.inputs, input), { ...options, split });
  }

  async #run(
    feeds: readonly Feed[],
    { split: own, signal, transfer }: ParallelRunOptions,
  ): Promise<Record<Key, Tensor>> {
    const { options } = this.#state;
    const split = own ?? options.split;
    const batch = readBatch(this.inputs, feeds, options.dim);
    const plan = planBatch(batch, split, this.#replicas, options.microBatch);
    if (split === 'chunk') this.#warnings.idle(this.#replicas, plan, batch);
    const count = 'tasks' in plan ? plan.tasks.length : plan.ranges.length;
    if (count > 1) {
      checkSameRows(batch);
      this.#checkBatched(batch);
    }
    // Parts of one batch lie in one buffer, so they cannot be moved.
    const runOptions = { signal, transfer: transfer && count === 1 };
    const run: RunOn = (replica, range) => runRange(replica, batch, range, this.#model, runOptions);
    const runs = await this.#work(plan, run, signal);
    if (split !== 'none' && split !== 'dynamic') this.#warnings.speed(this.#replicas);
    return this.#join(batch, runs);
  }

  async #work(plan: Plan, run: RunOn, signal: AbortSignal | undefined): Promise<Outputs[]> {
    try {
      return 'tasks' in plan
        ? await runTasks(this.#replicas, plan.tasks, run)
        : await runDynamic(this.#replicas, plan.ranges, run);
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    }
  }

  /** Outputs that the graph says have a number of rows of their own cannot be joined to one row per sample. */
  #checkBatched({ axis, fixed, rows }: Batch): void {
    if (fixed !== null) return;
    for (const { name, dims } of this.outputs) {
      if (typeof dims?.[axis] !== 'number') continue;
      throw notBatched(name, dims as readonly number[], rows ?? 0);
    }
  }

  async #join(batch: Batch, runs: readonly Outputs[]): Promise<Record<Key, Tensor>> {
    const joined = await gather(runs, batch.axis);
    if (runs.length > 1 && joined.some((_, i) => runs[0]![i]!.dims.length === 0)) {
      this.#warnings.scalars();
    }
    return recordOf(this.#model, new Map(joined.map(({ name, ...tensor }) => [name, tensor])));
  }

  /**
   * Runs many batches, each whole on one device, as many at once as keep all devices busy. Memory is bounded by that number.
   *
   * @param inputs - Batches, taken as they are needed.
   * @param given - See {@link RunOptions}.
   * @returns Their outputs, in the order of the batches.
   * @throws {@link TapirError} those of {@link DataParallel.run}, when the batch's turn comes.
   *
   * @example
   * ```ts
   * import { createFeatureExtractor } from 'onnx-tapir';
   *
   * const parallel = await createFeatureExtractor('resnet50.onnx', { avgpool: 'pooled' }, { devices: ['cpu:0', 'cpu:1'] });
   * const zeros = { dtype: 'float32', dims: [8, 3, 224, 224], data: new Float32Array(8 * 3 * 224 * 224) };
   * for await (const { pooled } of parallel.map([zeros, zeros])) console.log(pooled.dims); // [8, 2048, 1, 1], twice
   * await parallel.close();
   * ```
   */
  map(
    inputs: Iterable<RunInput> | AsyncIterable<RunInput>,
    given: Options<RunOptions> = {},
  ): AsyncGenerator<Record<Key, Tensor>> {
    const options = readRunOptions(given);
    return mapInOrder(inputs, 2 * this.#replicas.reduce((sum, { sessions }) => sum + sessions, 0), (input) =>
      this.run(input, { ...options, split: 'none' }),
    );
  }

  /** Waits for runs in flight, and ends the sessions; those of `.module` only if it was made here. Idempotent. */
  async close(): Promise<void> {
    if (this.#ownsModule) await this.module.close();
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  /** Same as {@link DataParallel.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export { internalsOf };

function notBatched(output: string, dims: readonly number[], rows: number): TapirError<'OUTPUT_NOT_BATCHED'> {
  return new TapirError(
    'OUTPUT_NOT_BATCHED',
    `output "${output}" has dims [${dims.join(', ')}] whatever the batch, so parts of a batch cannot be joined; run it on one device, or with split "none"`,
    { details: { output, dims, rows } },
  );
}
