/** One model over several devices: each holds a stage of it, and parts of a batch are in different stages at the same time. */
import { totalmem } from 'node:os';
import { invalidOption, pickFields, type Options } from '../base/checks.js';
import { optional, readOptions, unchecked, type Fields } from '../base/options.js';
import type { OnnxModel, ModelSource } from '../model/open/open-model.js';
import { SPLIT_FIELDS, splitModel, type ModelStages, type SplitOptions } from './split-model.js';
import { checkNames, type KeysOf, type ReturnNodes } from '../model/open/return-nodes.js';
import type { PrunedModel } from '../model/prune/pruned-model.js';
import { REWRITE_FIELDS, type RewriteOptions } from '../model/prune/rewrite-options.js';
import { readDevices, shareThreads, type Device, type ResolvedDevice } from '../runtime/lanes/device.js';
import { leastMemory } from '../runtime/devices/balance.js';
import { LANE_FIELDS, readLaneOptions, type LaneOptions } from '../runtime/lanes/lane-options.js';
import { openAll } from '../runtime/open-all.js';
import { openReplica } from '../runtime/replica.js';
import { readSessionOptions, type SessionOptions } from '../runtime/lanes/session-options.js';
import type { Tensor } from '../tensor/tensor.js';
import { describeLanes } from '../model/lanes/describe-lanes.js';
import { Extractor, extractorInternals, feedsOf } from '../extract/extractor.js';
import { createFeatureModel } from '../extract/replicas/feature-model.js';
import type { SessionSetup } from '../model/lanes/session-model.js';
import { pruneSource } from '../extract/prune-source.js';
import { mapInOrder } from '../extract/map-in-order.js';
import { PARALLEL_DEFAULTS, PARALLEL_FIELDS } from '../extract/replicas/parallel-options.js';
import { ReplicaSet } from '../extract/replicas/replica-set.js';
import { readRunOptions, type RunInput, type RunOptions } from '../extract/replicas/run-options.js';
import { StageChain } from './stage-chain.js';

/** Options of {@link Pipeline.create}. */
export interface PipelineOptions
  extends RewriteOptions, LaneOptions, Pick<SplitOptions, 'by' | 'maxTensors' | 'memoryBytes'> {
  /**
   * The device of each stage, in order; as many stages as devices. Lists of devices are pipelines side by side, each of which holds
   * the whole model: `[['cuda:0', 'cuda:1'], ['cuda:2', 'cuda:3']]`.
   */
  readonly devices: readonly Device[] | readonly (readonly Device[])[];
  /**
   * Names of the values after which to cut, one fewer than devices. Without them, the stages are balanced; see
   * {@link SplitOptions.by}.
   * @default undefined
   */
  readonly cuts: readonly string[] | undefined;
  /**
   * Rows of a part, from 0 to 65,536; 0 makes about four parts per stage. The more parts, the less the stages wait at the start and
   * at the end of a batch: of `m` parts over `k` stages, `m / (m + k − 1)` of the time is used.
   * @default 0
   */
  readonly microBatch: number;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Options<SessionOptions>;
}

const PIPELINE_FIELDS: Fields<PipelineOptions> = {
  ...REWRITE_FIELDS,
  ...LANE_FIELDS,
  by: SPLIT_FIELDS.by,
  maxTensors: SPLIT_FIELDS.maxTensors,
  memoryBytes: SPLIT_FIELDS.memoryBytes,
  devices: unchecked([]),
  cuts: optional(checkNames),
  microBatch: PARALLEL_FIELDS.microBatch,
  session: unchecked({}),
};

/** A stage of a pipeline. */
export interface PipelineStage {
  /** The device, or the devices of pipelines side by side. */
  readonly devices: readonly string[];
  readonly macs: number;
  readonly parameters: number;
  readonly weightBytes: number;
  /** Bytes per row that cross to it from the stages in front of it. */
  readonly bytesPerSample: number;
  /** Milliseconds in the engine so far. */
  readonly runMs: number;
  /** Ids of the processes that hold its sessions: this one, or children. */
  readonly pids: readonly number[];
}

/**
 * A feature extractor whose model lies on several devices, one stage on each: for a model that no device can hold whole. Made by
 * {@link Pipeline.create}. It can be used wherever an extractor can.
 *
 * @remarks Parts of a batch move through the stages one after the other, so that all devices work; rows come out in order. At most
 * two parts per stage are under way, which bounds the memory. Where the model fits on each device, {@link DataParallel} is faster:
 * nothing crosses and nothing waits; `advice` says so.
 */
export class Pipeline<Key extends string = string> extends Extractor<Key> {
  /** Mean cost of a stage divided by the largest one; see {@link ModelStages.balance}. */
  readonly balance: number;
  /** What would be faster, or null. */
  readonly advice: string | null;
  readonly #split: ModelStages;
  readonly #chains: readonly StageChain[];

  private constructor(
    set: ReplicaSet,
    chains: readonly StageChain[],
    split: ModelStages,
    advice: string | null,
  ) {
    super(set);
    this.balance = split.balance;
    this.advice = advice;
    this.#split = split;
    this.#chains = chains;
  }

  /** The stages, in order, and what they have done. */
  get stages(): readonly PipelineStage[] {
    const { stages, crossing } = this.#split;
    return stages.map(({ macs, parameters, weightBytes }, i) => {
      const runners = this.#chains.map((chain) => chain.stages[i]!.runner);
      return {
        devices: runners.map(({ device }) => device),
        macs,
        parameters,
        weightBytes,
        bytesPerSample: crossing[i - 1]?.bytesPerSample ?? 0,
        runMs: runners.reduce((sum, { spent }) => sum + spent.runMs, 0),
        pids: runners.flatMap(({ pids }) => pids),
      };
    });
  }

  /**
   * Prunes a model to what the named values need, splits it into one stage per device, and opens a session for each.
   *
   * @param model - A model, or where to open one; or a pruned model, such as {@link lowerPrecision} gives.
   * @param returnNodes - As for {@link createFeatureExtractor}; undefined for a pruned model.
   * @param given - See {@link PipelineOptions}; `devices` is required.
   * @returns The pipeline; close it after use.
   * @throws {@link TapirError} those of {@link pruneModel} and {@link splitModel}; `SESSION_FAILED`; `DEVICE_UNAVAILABLE`;
   * `OPTION_INVALID`.
   *
   * @example Two lanes on the CPU; on GPUs: `['cuda:0', 'cuda:1']`.
   * ```ts
   * import { Pipeline } from 'onnx-tapir/stages';
   *
   * const pipeline = await Pipeline.create('resnet50.onnx', { avgpool: 'pooled' }, { devices: ['cpu:0', 'cpu:1'] });
   * console.log(pipeline.stages.map(({ devices, macs }) => [devices[0], macs]), pipeline.balance);
   * const { pooled } = await pipeline.run({ dtype: 'float32', dims: [32, 3, 224, 224], data: new Float32Array(32 * 3 * 224 * 224) });
   * console.log(pooled.dims); // [32, 2048, 1, 1]
   * await pipeline.close();
   * ```
   */
  static async create<const Nodes extends ReturnNodes>(
    model: OnnxModel | ModelSource,
    returnNodes: Nodes,
    given: Options<PipelineOptions> & Pick<PipelineOptions, 'devices'>,
  ): Promise<Pipeline<KeysOf<Nodes>>>;
  static async create(
    model: PrunedModel,
    returnNodes: undefined,
    given: Options<PipelineOptions> & Pick<PipelineOptions, 'devices'>,
  ): Promise<Pipeline>;
  static async create(
    model: OnnxModel | ModelSource | PrunedModel,
    returnNodes: ReturnNodes | undefined,
    given: Options<PipelineOptions> & Pick<PipelineOptions, 'devices'>,
  ): Promise<Pipeline> {
    const { rows, setup, microBatch, split: how, rewriting } = readPipeline(given);
    const pruned = await pruneSource(model, returnNodes, rewriting, given);
    const split = await splitModel(pruned, ...how);
    const chains = await openChains(split, rows, setup);
    try {
      const featureModel = createFeatureModel(pruned, setup, chains[0]!.facts);
      const options = { ...PARALLEL_DEFAULTS, split: 'dynamic', microBatch } as const;
      const set = new ReplicaSet(featureModel, chains, options, chains.length > 1);
      const advice = await adviseReplicas(split, rows);
      if (advice !== null) process.emitWarning(advice, { code: 'TAPIR_PIPELINE_UNNEEDED' });
      return new Pipeline(set, chains, split, advice);
    } catch (error) {
      await Promise.all(chains.map((chain) => chain.close()));
      throw error;
    }
  }

  /**
   * Runs the model: the batch goes through the stages in parts.
   *
   * @param input - As for {@link FeatureExtractor.run}.
   * @param given - See {@link RunOptions}.
   * @returns A tensor per output key, rows in the order of the input.
   * @throws {@link TapirError} `STAGE_FAILED` with the stage, its device and the `cause`; with pipelines side by side, that is the cause
   * of `REPLICA_FAILED`; `INPUT_MISMATCH`; `BATCH_FIXED`; `OUTPUT_NOT_BATCHED`; `CLOSED`; the signal's reason if it fires.
   */
  async run(input: RunInput, given: Options<RunOptions> = {}): Promise<Record<Key, Tensor>> {
    const options = { ...readRunOptions(given), split: 'dynamic' } as const;
    return (await extractorInternals.of(this).run(feedsOf(this, input), options)) as Record<Key, Tensor>;
  }

  /**
   * Runs many batches, each whole: as many at once as keep all stages busy. See {@link DataParallel.map}.
   *
   * @param inputs - The batches; each is taken when the first stage can have it.
   * @param given - See {@link RunOptions}.
   * @returns Their outputs, in the order of the batches.
   */
  map(
    inputs: Iterable<RunInput> | AsyncIterable<RunInput>,
    given: Options<RunOptions> = {},
  ): AsyncGenerator<Record<Key, Tensor>> {
    const options = { ...readRunOptions(given), split: 'none' } as const;
    const set = extractorInternals.of(this);
    const run = (input: RunInput) => set.run(feedsOf(this, input), options) as Promise<Record<Key, Tensor>>;
    return mapInOrder(inputs, set.runsAtOnce, run);
  }
}

/** Checks the options. Throws `OPTION_INVALID`. */
function readPipeline(given: Options<PipelineOptions>) {
  const options = readOptions(PIPELINE_FIELDS, given, 'Pipeline.create');
  const { devices, cuts, microBatch, session, by, maxTensors, memoryBytes, ...rest } = options;
  const rows = readRows(devices);
  const stages = rows[0]!.length;
  if (cuts !== undefined && cuts.length !== stages - 1)
    throw invalidOption('cuts', `${stages - 1} names for ${stages} devices`, cuts);
  const lane = readLaneOptions(pickFields(rest, LANE_FIELDS));
  const size = { by, maxTensors, memoryBytes, batch: microBatch };
  return {
    rows,
    setup: { session: readSessionOptions(session), lane },
    microBatch,
    split: [cuts === undefined ? { stages } : { cuts }, size] as const,
    rewriting: pickFields(rest, REWRITE_FIELDS),
  };
}

/** The devices of each pipeline. */
function readRows(given: PipelineOptions['devices']): ResolvedDevice[][] {
  const isNested = Array.isArray(given) && given.some((row) => Array.isArray(row));
  const rows = (isNested ? given : [given]) as readonly (readonly Device[])[];
  const all = readDevices('devices', isNested ? rows.flat() : given);
  const [first] = rows;
  if (rows.some((row) => row.length !== first!.length))
    throw invalidOption('devices', 'lists of as many devices each, one per stage', given);
  return rows.map((row, i) => all.slice(i * row.length, (i + 1) * row.length));
}

/** Opens the stages of all pipelines at once. If one fails, all are closed. */
async function openChains(
  { stages }: ModelStages,
  rows: readonly (readonly ResolvedDevice[])[],
  setup: SessionSetup,
): Promise<StageChain[]> {
  const devices = shareThreads(rows.flat(), 1);
  const opened = await openAll(
    devices.map((device, i) => {
      const place = { device, lane: setup.lane, sessions: 1, onLaneDeath: 'restart' } as const;
      return openReplica(place, describeLanes(stages[i % stages.length]!.model, setup, 1)(device));
    }),
    (replica) => replica.close(),
  );
  return rows.map(
    (_, row) =>
      new StageChain(
        stages.map(({ inputs, outputs }, i) => ({
          runner: opened[row * stages.length + i]!,
          inputs: inputs.map(({ name }) => name),
          outputs: outputs.map(({ name }) => name),
        })),
      ),
  );
}

/** A model needs its weights, and about as much again for activations and the engine. */
const MEMORY_PER_WEIGHT = 2;

/** Whether each device could hold the whole model, as far as their memory is known. */
async function adviseReplicas(
  { stages }: ModelStages,
  rows: readonly (readonly ResolvedDevice[])[],
): Promise<string | null> {
  const devices = rows.flat();
  const needed = MEMORY_PER_WEIGHT * stages.reduce((sum, { weightBytes }) => sum + weightBytes, 0);
  const onCpu = devices.filter(({ type }) => type === 'cpu').length;
  if (needed * onCpu > totalmem()) return null;
  const memory = await leastMemory(devices.filter(({ type }) => type !== 'cpu'));
  if (stages.length < 2 || memory < needed) return null;
  return 'the whole model fits on each of these devices: DataParallel runs a copy on each, so nothing crosses and no stage waits for another';
}
