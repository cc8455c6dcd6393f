/** One model on several devices: a batch is split over them, and the outputs are joined. */
import { checkInteger, invalidOption, type Options } from '../base/checks.js';
import { readOptions, unchecked, type Fields } from '../base/options.js';
import { readDevices, type Devices } from '../run/runtime/lanes/device.js';
import { devicesLike, namedDevices } from '../run/runtime/devices/device-list.js';
import { deviceRows, readSplit, type Split } from './replicas/split.js';
import { arePhotos } from '../photos/images/transform/photo-tensors.js';
import type { DType, NamedTensor, Tensor } from '../onnx/tensor/tensor.js';
import { Extractor, extractorInternals, feedsOf } from './extractor.js';
import { FeatureExtractor } from './feature-extractor.js';
import { mapInOrder } from '../base/map-in-order.js';
import { openReplicas } from './replicas/open-replicas.js';
import { PARALLEL_FIELDS, readParallelOptions, type ParallelOptions } from './replicas/parallel-options.js';
import { isPhoto } from './replicas/read-run-input.js';
import { ReplicaSet } from './replicas/replica-set.js';
import { readRunOptions, RUN_FIELDS, type RunInput, type RunOptions } from './replicas/run-options.js';

/** Options of {@link DataParallel.create}. */
export interface DataParallelOptions extends ParallelOptions {
  /**
   * The devices, each at most once; the first one is replica 0. `'all'` is every CUDA GPU that is visible.
   * @default all visible GPUs for an extractor on CUDA; else its device
   */
  readonly devices: Devices | undefined;
}

/** Options of {@link DataParallel.run}. */
export interface ParallelRunOptions extends RunOptions {
  /**
   * How to split this batch; see {@link ParallelOptions.split}.
   * @default the split of the model
   */
  readonly split: Split | undefined;
}

/** A device of a data-parallel model, and what it has done. */
export interface ReplicaInfo {
  readonly device: string;
  /** `removed` after its lane died, with `onLaneDeath: 'remove'`. */
  readonly state: 'ready' | 'removed';
  /** Runs that are waiting or in progress. */
  readonly load: number;
  readonly runs: number;
  readonly failures: number;
  /** How often a dead lane was opened again. */
  readonly restarts: number;
  /** The processes that hold its sessions: this one, or children. */
  readonly pids: readonly number[];
}

let newDataParallel: <Key extends string, Type extends DType>(
  module: FeatureExtractor<Key, Type>,
  set: ReplicaSet,
  ownsModule: boolean,
) => DataParallel<Key, Type>;

/**
 * A feature extractor on several devices, like nn.DataParallel of torch: the batch is split along `dim`, each device runs its part
 * in its own session, and the outputs are joined in order. Made by {@link DataParallel.create}, or by
 * {@link createFeatureExtractor} with `devices`.
 *
 * @remarks The outputs equal those of the same parts on one device bit for bit, and those of the whole batch up to rounding.
 * Sessions stay open between calls. Calls may overlap; each device runs its parts in the order of the calls.
 */
export class DataParallel<Key extends string = string, Type extends DType = 'float32'> extends Extractor<
  Key,
  Type
> {
  /** The wrapped extractor. */
  readonly module: FeatureExtractor<Key, Type>;
  /** The devices in use, in order. */
  readonly devices: readonly string[];
  readonly #ownsModule: boolean;

  static {
    newDataParallel = (module, set, ownsModule) => new DataParallel(module, set, ownsModule);
  }

  private constructor(module: FeatureExtractor<Key, Type>, set: ReplicaSet, ownsModule: boolean) {
    super(set);
    this.module = module;
    this.devices = set.replicas.map(({ device }) => device);
    this.#ownsModule = ownsModule;
  }

  /**
   * Puts an extractor on several devices.
   *
   * @remarks As in torch, the extractor itself is the replica on its device: its session is shared, so the device holds the weights once.
   * This call opens another session there only if the options differ. That means other `threads`, several `sessionsPerDevice`,
   * `onLaneDeath: 'remove'`, or several CPU lanes beside an extractor that uses all cores.
   * @param extractor - From {@link createFeatureExtractor}. It stays open and remains yours to close, before or after the result.
   * @param given - See {@link DataParallelOptions}. The session options are those of the extractor.
   * @returns The data-parallel model; close it after use.
   * @throws {@link TapirError} `OPTION_INVALID` for a list that is empty or names a device twice; `DEVICE_UNAVAILABLE`;
   * `SESSION_FAILED`; `CLOSED`.
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
  static async create<Key extends string, Type extends DType>(
    extractor: FeatureExtractor<Key, Type>,
    given: Options<DataParallelOptions> = {},
  ): Promise<DataParallel<Key, Type>> {
    const set = extractorInternals.of(extractor);
    const { model, replicas } = set;
    if (!(extractor instanceof FeatureExtractor))
      throw invalidOption('extractor', 'one on a single device', 'a DataParallel; pass its module');
    set.checkOpen();
    const fields: Fields<DataParallelOptions> = { ...PARALLEL_FIELDS, devices: unchecked(undefined) };
    const { devices: wanted, ...rest } = readOptions(fields, given, 'DataParallel.create');
    const named = (await namedDevices(wanted)) ?? (await devicesLike(extractor.device));
    const devices = readDevices('devices', named);
    const options = readParallelOptions(rest, devices.length);
    const opened = await openReplicas(model.pruned, devices, model, options, replicas[0]);
    return newDataParallel(extractor, new ReplicaSet(model, opened, options), false);
  }

  /** What each device is doing and has done. */
  get replicas(): readonly ReplicaInfo[] {
    const { replicas } = extractorInternals.of(this);
    return replicas.map(({ device, isRemoved, load, counts, pids }) => {
      const { runs, failures, restarts } = counts;
      return { device, state: isRemoved ? 'removed' : 'ready', load, runs, failures, restarts, pids };
    });
  }

  /**
   * How many rows of a batch each device gets; 0 for an idle one. With `split: 'dynamic'` and `'none'` this is decided during the
   * run, so it throws `OPTION_INVALID`.
   *
   * @param rows - Rows of the batch.
   */
  rowsPerDevice(rows: number): readonly { readonly device: string; readonly rows: number }[] {
    const { split } = extractorInternals.of(this).options;
    if (split === 'dynamic' || split === 'none')
      throw invalidOption('split', '"chunk", "balanced" or weights, whose parts are known beforehand', split);
    const count = checkInteger('rows', rows, 0, Number.MAX_SAFE_INTEGER);
    const sizes = deviceRows(split, count, this.devices.length);
    return this.devices.map((device, i) => ({ device, rows: sizes[i]! }));
  }

  /**
   * Runs the model on all devices.
   *
   * @param input - As for {@link FeatureExtractor.run}. Inputs whose axis `dim` is open in the graph are split, and must be equally
   * long along it. All others go to each device whole.
   * @param given - See {@link ParallelRunOptions}.
   * @returns A tensor per output key, rows in the order of the input. Outputs without axes become a vector with one element per
   * part, with a warning.
   * @throws {@link TapirError} `REPLICA_FAILED` after all devices have settled: the first failure in order, with its `cause`, and the
   * others in `errors`; `INPUT_MISMATCH`; `BATCH_FIXED`; `OUTPUT_NOT_BATCHED` for an output that has no row per sample;
   * `OUTPUT_NOT_GATHERABLE`; the signal's reason if it fires. After `close`, the cause of `REPLICA_FAILED` is `CLOSED`.
   */
  async run(input: RunInput, given: Options<ParallelRunOptions> = {}): Promise<Record<Key, Tensor<Type>>> {
    const set = extractorInternals.of(this);
    const fields: Fields<ParallelRunOptions> = { ...RUN_FIELDS, split: unchecked(undefined) };
    const { split: own, ...options } = readOptions(fields, given, 'run');
    const feeds = feedsOf(this, input);
    const usual = canSplit(input, feeds) ? set.options.split : 'none';
    const split = own === undefined ? usual : readSplit(own, this.devices.length);
    // Its keys are those of the request, and Type is that of its outputs.
    return (await set.run(feeds, { ...options, split })) as Record<Key, Tensor<Type>>;
  }

  /**
   * Runs many batches, each whole on one device, as many at once as keep all devices busy. That number bounds the memory.
   *
   * @param inputs - The batches; each is taken when a device can have it.
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
  ): AsyncGenerator<Record<Key, Tensor<Type>>> {
    const options = readRunOptions(given);
    const { runsAtOnce } = extractorInternals.of(this);
    return mapInOrder(inputs, runsAtOnce, (input) => this.run(input, { ...options, split: 'none' }));
  }

  /**
   * Waits for the runs in flight, and ends the sessions that nothing else uses. Closes `.module` too if it was made together with
   * this object. Idempotent.
   */
  override async close(): Promise<void> {
    await Promise.all([super.close(), ...(this.#ownsModule ? [this.module.close()] : [])]);
  }
}

/** A photo stays whole, and so do photos of which each has another number of rows. */
function canSplit(input: RunInput, feeds: readonly NamedTensor[]): boolean {
  if (!arePhotos(input)) return !isPhoto(input);
  return new Set(feeds.map(({ dims }) => dims[0])).size === 1;
}

export { newDataParallel };
