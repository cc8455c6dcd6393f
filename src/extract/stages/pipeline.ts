/** One model over several devices: each holds a stage of it, and parts of a batch are in different stages at the same time. */
import { givenFields, isPlainObject, type Options } from '../../base/checks.js';
import { Extractor, extractorInternals, feedsOf } from '../extractor.js';
import { withOwnSettings } from '../own-settings.js';
import { pruneSource } from '../prune-source.js';
import { createFeatureModel } from '../replicas/feature-model.js';
import { mapInOrder } from '../../base/map-in-order.js';
import type { DTypeOf } from '../replicas/output-dtype.js';
import { PARALLEL_DEFAULTS } from '../replicas/parallel-options.js';
import { ReplicaSet } from '../replicas/replica-set.js';
import { readRunOptions, type RunInput, type RunOptions } from '../replicas/run-options.js';
import { describeLanes } from '../../run/model/lanes/describe-lanes.js';
import type { SessionSetup } from '../../run/model/lanes/session-model.js';
import type { OnnxModel, ModelSource } from '../../run/model/open/open-model.js';
import type { KeysOf, ReturnNodes } from '../../run/model/open/return-nodes.js';
import { findMixedRows } from '../../run/model/oracle/find-mixed-rows.js';
import { inputsOf, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import { namedDevices } from '../../run/runtime/devices/device-list.js';
import { shareThreads } from '../../run/runtime/lanes/device.js';
import { openAll } from '../../run/runtime/open-all.js';
import { openReplica } from '../../run/runtime/replica.js';
import type { DType, Tensor } from '../../onnx/tensor/tensor.js';
import { adviseDevices, adviseReplicas } from './pipeline-advice.js';
import {
  readPipeline,
  type PipelineOptions,
  type PipelineRequest,
  type ReadPlace,
} from './pipeline-options.js';
import { splitMeasured, type ModelStages } from './split-model.js';
import { StageChain } from './stage-chain.js';
import { describeMeeting, planStage, StageReplicas, type KnownRows } from './stage-replicas.js';

/** What a device of a stage has done. */
export interface StageSpent {
  readonly device: string;
  /** Parts of batches. */
  readonly runs: number;
  /** Milliseconds in the engine. */
  readonly runMs: number;
}

/** A stage of a pipeline. */
export interface PipelineStage {
  /** Its devices: one, several that each hold it, or those of pipelines side by side. */
  readonly devices: readonly string[];
  readonly macs: number;
  readonly parameters: number;
  readonly weightBytes: number;
  /** Bytes per row that cross to it from the stages in front of it. */
  readonly bytesPerSample: number;
  /** Milliseconds in the engine so far, of all devices. */
  readonly runMs: number;
  /** By device, in the order of `devices`. */
  readonly spent: readonly StageSpent[];
  /** Ids of the processes that hold its sessions: this one, or children. */
  readonly pids: readonly number[];
}

/** The devices of a request. What is no list is refused when it is read. */
function lanesOf({ devices, stages }: PipelineRequest<PipelineOptions['outputDtype']>): readonly unknown[] {
  const listed: readonly unknown[] = Array.isArray(stages) ? stages : [];
  const own = listed.filter(isPlainObject).map((stage) => stage['devices']);
  return [devices, ...own].flat(2).filter((device) => device !== undefined);
}

/**
 * A feature extractor whose model lies on several devices, one stage on each: for a model that no device can hold whole. Made by
 * {@link Pipeline.create}. It can be used wherever an extractor can.
 *
 * @remarks Parts of a batch move through the stages one after the other, so that all devices work; rows come out in order. At most
 * two parts per stage are under way, which bounds the memory. A batch whose rows depend on one another stays whole: several batches
 * ({@link Pipeline.map}) then keep the devices busy. Where the model fits on each device, {@link DataParallel} is faster:
 * nothing crosses and nothing waits; `advice` says so.
 */
export class Pipeline<Key extends string = string, Type extends DType = 'float32'> extends Extractor<
  Key,
  Type
> {
  /** Mean cost of a stage divided by the largest one; see {@link ModelStages.balance}. */
  readonly balance: number;
  readonly #advice: string | null;
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
    this.#advice = advice;
    this.#split = split;
    this.#chains = chains;
  }

  /** What would be faster, or null: copies of the whole model, or, once batches have run, more devices for a slow stage. */
  get advice(): string | null {
    return (
      this.#advice ??
      adviseDevices(
        this.stages.map(({ spent, runMs, devices }) => {
          const runs = spent.reduce((sum, device) => sum + device.runs, 0);
          return { runMs, runs, devices: devices.length };
        }),
      )
    );
  }

  /** The stages, in order, and what they have done. */
  get stages(): readonly PipelineStage[] {
    const { stages, crossing } = this.#split;
    return stages.map(({ macs, parameters, weightBytes }, i) => {
      const replicas = this.#chains.flatMap((chain) => chain.stages[i]!.replicas);
      const spent = replicas.map(({ device, counts: { runs }, spent: { runMs } }) => ({
        device,
        runs,
        runMs,
      }));
      return {
        devices: replicas.map(({ device }) => device),
        macs,
        parameters,
        weightBytes,
        bytesPerSample: crossing[i - 1]?.bytesPerSample ?? 0,
        runMs: spent.reduce((sum, { runMs }) => sum + runMs, 0),
        spent,
        pids: replicas.flatMap(({ pids }) => pids),
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
  static async create<
    const Nodes extends ReturnNodes,
    const Asked extends PipelineOptions['outputDtype'] = 'float32',
  >(
    model: OnnxModel | ModelSource,
    returnNodes: Nodes,
    given: PipelineRequest<Asked>,
  ): Promise<Pipeline<KeysOf<Nodes>, DTypeOf<Asked>>>;
  static async create<const Asked extends PipelineOptions['outputDtype'] = 'float32'>(
    model: PrunedModel,
    returnNodes: undefined,
    given: PipelineRequest<Asked>,
  ): Promise<Pipeline<string, DTypeOf<Asked>>>;
  static async create(
    model: OnnxModel | ModelSource | PrunedModel,
    returnNodes: ReturnNodes | undefined,
    given: PipelineRequest<PipelineOptions['outputDtype']>,
  ): Promise<Pipeline<string, DType>> {
    const fields = givenFields(given, 'Pipeline.create');
    const named =
      fields.devices === 'all' ? { ...fields, devices: await namedDevices(fields.devices) } : fields;
    const { options: asked, own } = withOwnSettings(model, named, returnNodes !== undefined, lanesOf(named));
    const request = readPipeline(asked);
    const { chains: places, setup, microBatch, split: how, rewriting } = request;
    const pruned = await pruneSource(model, returnNodes, rewriting, asked, 'auto');
    const { split, whole, costs } = await splitMeasured(pruned, ...how);
    const mixed = await findMixedRows(whole, costs);
    const rows = { batches: openBatches(pruned), mixed: mixed.nodes };
    const chains = await openChains(split, places, setup, rows);
    try {
      const featureModel = createFeatureModel(pruned, setup, chains[0]!.facts, {
        outputDtype: rewriting.outputDtype,
        transform: 'auto',
        own,
      });
      const isWhole = microBatch === 0 && (mixed.nodes.size > 0 || mixed.outputs.length > 0);
      const options = { ...PARALLEL_DEFAULTS, split: isWhole ? 'none' : 'dynamic', microBatch } as const;
      const [meeting] = mixed.nodes;
      if (meeting && !isWhole)
        process.emitWarning(
          `rows of a batch depend on one another: ${describeMeeting(...meeting)}; results depend on microBatch: leave it out to run each batch whole`,
          { code: 'TAPIR_ROWS_DEPENDENT' },
        );
      const set = new ReplicaSet(featureModel, chains, options, chains.length > 1);
      // Whoever names the devices of each stage has chosen which part runs where.
      const advice = fields.stages
        ? null
        : await adviseReplicas(
            split.stages,
            places.flat().flatMap(({ devices }) => devices),
          );
      if (advice !== null) process.emitWarning(advice, { code: 'TAPIR_PIPELINE_UNNEEDED' });
      return new Pipeline(set, chains, split, advice);
    } catch (error) {
      await Promise.all(chains.map((chain) => chain.close()));
      throw error;
    }
  }

  /**
   * Runs the model: the batch goes through the stages in parts. Where the file shows that its rows depend on one another, or that an
   * output has no row per row, it stays whole; see {@link PipelineOptions.microBatch}.
   *
   * @param input - As for {@link FeatureExtractor.run}.
   * @param given - See {@link RunOptions}.
   * @returns A tensor per output key, rows in the order of the input.
   * @throws {@link TapirError} `STAGE_FAILED` with the stage, its device and the `cause`; with pipelines side by side, that is the cause
   * of `REPLICA_FAILED`; `INPUT_MISMATCH`; `BATCH_FIXED`; `OUTPUT_NOT_BATCHED`; `CLOSED`; the signal's reason if it fires.
   */
  async run(input: RunInput, given: Options<RunOptions> = {}): Promise<Record<Key, Tensor<Type>>> {
    const set = extractorInternals.of(this);
    const options = { ...readRunOptions(given), split: set.options.split };
    return (await set.run(feedsOf(this, input), options)) as Record<Key, Tensor<Type>>;
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
  ): AsyncGenerator<Record<Key, Tensor<Type>>> {
    const options = { ...readRunOptions(given), split: 'none' } as const;
    const set = extractorInternals.of(this);
    const run = (input: RunInput) =>
      set.run(feedsOf(this, input), options) as Promise<Record<Key, Tensor<Type>>>;
    return mapInOrder(inputs, set.runsAtOnce, run);
  }
}

/** Opens the stages of all pipelines at once. If one fails, all are closed. */
async function openChains(
  { stages }: ModelStages,
  chains: readonly (readonly ReadPlace[])[],
  setup: SessionSetup,
  rows: KnownRows,
): Promise<StageChain[]> {
  const hows = chains.map((places) =>
    places.map(({ devices, split }, i) =>
      devices.length === 1 ? undefined : planStage(stages[i]!, split, rows, `stages[${i}].split`),
    ),
  );
  const places = chains.flatMap((chain) =>
    chain.flatMap(({ devices }, stage) => devices.map((device) => ({ device, stage }))),
  );
  const describe = stages.map(({ model }, i) =>
    describeLanes(model, setup, places.filter(({ stage }) => stage === i).length),
  );
  const devices = shareThreads(
    places.map(({ device }) => device),
    1,
  );
  const opened = await openAll(
    places.map(({ stage }, i) => {
      const place = { device: devices[i]!, lane: setup.lane, sessions: 1, onLaneDeath: 'restart' } as const;
      return openReplica(place, describe[stage]!(place.device));
    }),
    (replica) => replica.close(),
  );
  let first = 0;
  return chains.map(
    (chain, row) =>
      new StageChain(
        chain.map(({ devices: { length } }, i) => {
          const replicas = opened.slice(first, (first += length));
          const how = hows[row]![i];
          return {
            runner: how ? new StageReplicas(replicas, how) : replicas[0]!,
            replicas,
            inputs: stages[i]!.inputs.map(({ name }) => name),
            outputs: stages[i]!.outputs.map(({ name }) => name),
          };
        }),
      ),
  );
}

/** The names that a model gives to its open batches. */
function openBatches(pruned: PrunedModel): Set<string> {
  return new Set(inputsOf(pruned).flatMap(({ dims }) => (typeof dims?.[0] === 'string' ? dims[0] : [])));
}
