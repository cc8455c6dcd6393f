/** A model on one device or several: splits batches, runs their parts, and joins the outputs. */
import { availableParallelism } from 'node:os';
import { isTapirError, TapirError } from '../../base/errors.js';
import { medianOf } from '../../base/median.js';
import { findImbalance } from '../../run/runtime/devices/balance.js';
import type { ResolvedDevice } from '../../run/runtime/lanes/device.js';
import { RUNS_PER_SESSION } from '../../run/runtime/lane-pool.js';
import type { ReplicaSpent, Runner } from '../../run/runtime/replica.js';
import { runRange } from '../../run/runtime/run-batch.js';
import { checkSameRows, hasSameRows, readBatch, type Batch } from '../../onnx/tensor/batch.js';
import { gather } from '../../onnx/tensor/gather.js';
import type { Feed } from '../../onnx/tensor/image-feed.js';
import type { Split } from './split.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { outputsOfRuns, runDynamic, runTasks, type Outputs, type RunOn } from './dispatch.js';
import { recordOf, type FeatureModel } from './feature-model.js';
import { PARALLEL_DEFAULTS, type ParallelOptions } from './parallel-options.js';
import { planBatch, type DeviceState, type Plan } from './parallel-plan.js';
import type { RunOptions } from './run-options.js';

/** Options of one run. */
interface SetRunOptions extends RunOptions {
  readonly split: Split;
  readonly room?: readonly ArrayBuffer[] | undefined;
  /** Whether each output must have a row per row of the feeds. */
  readonly isPerRow?: boolean | undefined;
  /** Whether outputs keep the element types of the session, whatever those of runs are. */
  readonly isKept?: boolean | undefined;
}

/** How a set of one replica runs: each batch whole. */
const ALONE: ParallelOptions = { ...PARALLEL_DEFAULTS, split: 'none' };

const RUNS_TO_COMPARE = 16;

/** The warnings of one model, by `code` of the process's warnings. */
class ParallelWarnings {
  readonly #given = new Set<string>();

  /** Warns that an exporter wrote its batch of 1 into the graph. */
  baked(): void {
    this.#warn(
      'TAPIR_BATCH_BAKED',
      'the file leaves the batch open, but its graph takes one row at a time, so rows run one by one; batch: "dynamic" (tapir: --set dynamicBatch=true) rewrites it to take all at once',
    );
  }

  /** Warns that some outputs have no axes. */
  scalars(): void {
    this.#warn(
      'TAPIR_SCALARS_GATHERED',
      'outputs without axes were joined to a vector, one element per part of the batch',
    );
  }

  /** Warns that torch’s chunks leave devices idle although there are enough rows. */
  idle(replicas: readonly Runner[], plan: Plan, { rows, fixed }: Batch): void {
    if (!('tasks' in plan) || !rows || rows / (fixed ?? 1) < replicas.length) return;
    const idle = replicas.filter(
      ({ isRemoved }, i) => !isRemoved && !plan.tasks.some(({ replica }) => replica === i),
    );
    if (idle.length === 0) return;
    const names = idle.map(({ device }) => device).join(', ');
    this.#warn(
      'TAPIR_DEVICES_IDLE',
      `split "chunk" leaves ${names} without rows of a batch of ${rows}, as torch does; split "balanced" uses all devices`,
    );
  }

  /** Warns that one device is much slower than another, once they have run often enough to tell. */
  speed(replicas: readonly Runner[]): void {
    const kinds = replicas.map(({ facts: { device } }) => `${device.type} ${device.threads}`);
    // CPU lanes of as many threads differ by chance alone.
    if (kinds.every((kind) => kind.startsWith('cpu') && kind === kinds[0])) return;
    if (replicas.some(({ recentRowMs }) => recentRowMs.length < RUNS_TO_COMPARE)) return;
    const found = findImbalance(
      replicas.map(({ device, recentRowMs }) => ({ device, value: 1 / medianOf(recentRowMs) })),
    );
    if (!found) return;
    const share = ((100 * found.least.value) / found.most.value).toFixed(0);
    this.#warn(
      'TAPIR_DEVICES_UNBALANCED',
      `${found.least.device} runs at ${share} % of the speed of ${found.most.device} and holds it up; pass weights as "split", use "dynamic", or drop this device`,
    );
  }

  #warn(code: string, message: string): void {
    if (this.#given.has(code)) return;
    this.#given.add(code);
    process.emitWarning(message, { code });
  }
}

/** The runner behind extractors. It takes over one hold on each of its replicas, and lets go of them when it is closed. */
export class ReplicaSet {
  readonly model: FeatureModel;
  readonly replicas: readonly Runner[];
  readonly options: ParallelOptions;
  readonly #isParallel: boolean;
  readonly #warnings = new ParallelWarnings();
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  /** Whether runs proved that the graph takes one row only, although its file leaves the batch open. */
  #isBaked = false;

  /** Without options, each batch runs whole. `isParallel`: whether failures name the replica. */
  constructor(
    model: FeatureModel,
    replicas: readonly Runner[],
    options?: ParallelOptions,
    isParallel: boolean = options !== undefined,
  ) {
    this.model = model;
    this.replicas = replicas;
    this.options = options ?? ALONE;
    this.#isParallel = isParallel;
  }

  /** The device of each session, as it is used. */
  get sessions(): readonly ResolvedDevice[] {
    return this.replicas.flatMap(({ devices }) => devices);
  }

  /** The times of each replica so far. */
  get spent(): readonly ReplicaSpent[] {
    return this.replicas.map(({ spent }) => spent);
  }

  /** How many batches at once keep all sessions busy. */
  get runsAtOnce(): number {
    return RUNS_PER_SESSION * this.sessions.length;
  }

  /** Whether it runs on the CPU alone. */
  get isOnCpu(): boolean {
    return this.sessions.every(({ type }) => type === 'cpu');
  }

  /** Photos per run where nobody says otherwise. */
  get photosPerRun(): number {
    return this.isOnCpu ? 8 : 32;
  }

  /** How many threads may decode photos beside it: the cores that its devices leave free, or all if they leave none. */
  get coresToDecode(): number {
    const cores = availableParallelism();
    // A session on a GPU keeps one core busy. One on the CPU states its threads; 0 means all cores.
    const taken = this.sessions.reduce((sum, { type, threads }) => sum + (type === 'cpu' ? threads : 1), 0);
    return taken < cores ? cores - taken : cores;
  }

  get isClosed(): boolean {
    return this.#closing !== undefined;
  }

  /** Throws `CLOSED` once it is. */
  checkOpen(): void {
    if (this.isClosed)
      throw new TapirError('CLOSED', 'the extractor is closed', { details: { what: 'extractor' } });
  }

  /**
   * Runs checked feeds whole on the least loaded device. `room`, buffers of earlier outputs, is moved away; outputs may come in it.
   * Throws `OUTPUT_NOT_BATCHED` for an output that has not a row per row of the feeds, unless `isPerRow` is false.
   */
  runRows(
    feeds: readonly Feed[],
    { isPerRow = true, ...how }: Pick<SetRunOptions, 'signal' | 'room' | 'isKept' | 'isPerRow'>,
  ): Promise<Record<string, Tensor>> {
    return this.run(feeds, { ...how, isPerRow, split: 'none', transfer: false });
  }

  /** Runs checked feeds; see {@link DataParallel.run}. */
  run(feeds: readonly Feed[], options: SetRunOptions): Promise<Record<string, Tensor>> {
    const running = this.#run(feeds, options);
    this.#running.add(running);
    const forget = (): void => void this.#running.delete(running);
    running.then(forget, forget);
    return running;
  }

  async #run(feeds: readonly Feed[], options: SetRunOptions): Promise<Record<string, Tensor>> {
    const read = readBatch(this.model.inputs, feeds, this.options.dim);
    const batch = this.#isBaked ? rowByRow(read) : read;
    try {
      return await this.#runBatch(batch, options);
    } catch (error) {
      if (!(await this.#isBakedAt(batch, options, error))) throw error;
      this.#isBaked = true;
      this.#warnings.baked();
      return await this.#runBatch(rowByRow(read), { ...options, room: undefined });
    }
  }

  /** Whether a failed batch shows that the graph takes one row at a time: two rows fail as well, and one row does not. */
  async #isBakedAt(batch: Batch, options: SetRunOptions, error: unknown): Promise<boolean> {
    const { fixed, rows } = batch;
    // Feeds that were moved away cannot run again.
    if (fixed !== null || rows === null || rows < 2 || options.transfer || !isBatchFailure(error))
      return false;
    const replica = this.replicas.find(({ isRemoved }) => !isRemoved);
    if (!replica || !hasSameRows(batch)) return false;
    const takes = async (count: number): Promise<boolean> => {
      try {
        const outputs = await runRange(replica, batch, { start: 0, count }, this.model, {});
        return outputs.every(({ dims }) => dims[batch.axis] === count);
      } catch (failure) {
        if (isBatchFailure(failure)) return false;
        throw failure;
      }
    };
    return !(await takes(2)) && (await takes(1));
  }

  async #runBatch(
    batch: Batch,
    { split, signal, transfer, room, isPerRow, isKept = false }: SetRunOptions,
  ): Promise<Record<string, Tensor>> {
    const plan = planBatch(batch, split, this.replicas.map(stateOf), this.options.microBatch);
    if (split === 'chunk') this.#warnings.idle(this.replicas, plan, batch);
    const count = 'tasks' in plan ? plan.tasks.length : plan.ranges.length;
    if (count > 1) {
      checkSameRows(batch);
      this.#checkBatched(batch);
    }
    // The parts of a batch share its buffer, so a part cannot be moved.
    const runOptions = { signal, transfer: transfer && count === 1, room };
    // A run that began before the set was closed may finish.
    const { isClosed } = this;
    const run: RunOn = async (replica, range) => {
      if (isClosed)
        throw new TapirError('CLOSED', 'this session is closed', { details: { what: 'session' } });
      return runRange(replica, batch, range, this.model, runOptions);
    };
    const running =
      'tasks' in plan
        ? runTasks(this.replicas, plan.tasks, (replica, { range }) => run(replica, range))
        : runDynamic(this.replicas, plan.ranges, run);
    const outputs = await outputsOfRuns(running, this.#isParallel, signal);
    if (split !== 'none' && split !== 'dynamic') this.#warnings.speed(this.replicas);
    const joined = await this.#join(batch, outputs, isKept);
    if (isPerRow) checkRows(joined, batch.rows ?? 0);
    return joined;
  }

  /** An output whose number of rows has nothing to do with the samples cannot be joined of the parts of a batch. */
  #checkBatched({ axis, fixed, rows }: Batch): void {
    for (const { name, dims } of this.model.outputs) {
      const size = dims?.[axis];
      // A fixed batch gives the same number of rows for each of its samples.
      if (typeof size !== 'number' || (fixed !== null && size % fixed === 0)) continue;
      throw notBatched(name, dims as readonly number[], rows ?? 0, fixed);
    }
  }

  async #join(batch: Batch, runs: readonly Outputs[], isKept: boolean): Promise<Record<string, Tensor>> {
    const joined = await gather(runs, batch.axis);
    if (runs.length > 1 && joined.some((_, i) => runs[0]![i]!.dims.length === 0)) this.#warnings.scalars();
    return recordOf(this.model, new Map(joined.map(({ name, ...tensor }) => [name, tensor])), isKept);
  }

  /** Waits for the runs in flight, and lets go of the replicas. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#running);
    await Promise.all(this.replicas.map(releaseReplica));
  }
}

/** What a plan depends on. */
export function stateOf({ isRemoved, load, devices, counts }: Runner): DeviceState {
  return { isRemoved, load, sessions: devices.length, runs: counts.runs };
}

/** A batch whose rows run one by one, if the file leaves its size open. */
function rowByRow(batch: Batch): Batch {
  return batch.rows === null ? batch : { ...batch, fixed: batch.fixed ?? 1 };
}

/** Whether a graph may refuse a batch for the number of its rows. */
function isBatchFailure(error: unknown): boolean {
  if (isTapirError(error, 'REPLICA_FAILED')) return isBatchFailure(error.cause);
  return isTapirError(error, 'RUN_FAILED') || isTapirError(error, 'OUTPUT_NOT_BATCHED');
}

function checkRows(outputs: Readonly<Record<string, Tensor>>, rows: number): void {
  for (const [output, { dims }] of Object.entries(outputs)) {
    if (dims[0] !== rows) throw noRowPerImage(output, dims, rows);
  }
}

export function noRowPerImage(
  output: string,
  dims: readonly number[],
  rows: number,
): TapirError<'OUTPUT_NOT_BATCHED'> {
  return new TapirError(
    'OUTPUT_NOT_BATCHED',
    `output "${output}" has dims [${dims.join(', ')}] for ${rows} images, so it has no row per image; ask for another tensor`,
    { details: { output, dims, rows } },
  );
}

function notBatched(
  output: string,
  dims: readonly number[],
  rows: number,
  fixed: number | null,
): TapirError<'OUTPUT_NOT_BATCHED'> {
  const [batch, remedy] =
    fixed === null
      ? [
          'any batch',
          'run it on one device, with split "none", or in a Pipeline with a microBatch of all rows',
        ]
      : [`a batch of ${fixed}`, `give ${fixed} rows at a time`];
  return new TapirError(
    'OUTPUT_NOT_BATCHED',
    `output "${output}" has dims [${dims.join(', ')}] for ${batch}, so the parts of a batch cannot be joined; ${remedy}`,
    { details: { output, dims, rows } },
  );
}

/** How many extractors hold a replica, which is closed when the last one lets go. The one that opened it holds it first. */
const holders = new WeakMap<Runner, number>();

/** Holds a replica once more. */
export function holdReplica(replica: Runner): Runner {
  holders.set(replica, (holders.get(replica) ?? 1) + 1);
  return replica;
}

/** Lets go of a replica; closes it, and waits for that, if nothing else holds it. */
export async function releaseReplica(replica: Runner): Promise<void> {
  const left = (holders.get(replica) ?? 1) - 1;
  holders.set(replica, left);
  if (left === 0) await replica.close();
}
