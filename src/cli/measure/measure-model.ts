/** The batch size at which a model runs fastest: times batches of made-up input, larger and larger. */
import { checkInteger, invalidOption, type Options } from '../../base/checks.js';
import { isTapirError, reasonOf } from '../../base/errors.js';
import { checkedBy, number, optional, type Field, type Fields } from '../../base/options.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import {
  enginePrecision,
  type BindingName,
  type EngineName,
  type EnginePrecision,
  type Precision,
} from '../../run/runtime/capabilities/capabilities.js';
import { LANE_FIELDS } from '../../run/runtime/lanes/lane-options.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { DataParallel } from '../../extract/data-parallel.js';
import { medianOf } from '../../base/median.js';
import type { CheckedSizes } from '../../run/model/open/input-sizes.js';
import { pruneModel } from '../../run/model/oracle/prune-model.js';
import { inPrecision } from '../../products/precision/lowering/lower-precision.js';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import type { ReturnNodes } from '../../run/model/open/return-nodes.js';
import type { RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import type { RunInput } from '../../extract/replicas/run-options.js';
import { chooseDims, FIRST_GUESS } from '../../run/model/open/made-up-sizes.js';
import { seededFeeds } from '../../run/model/oracle/seeded-feeds.js';
import type { DType } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';

/** What is measured, and how. */
export interface MeasureModelOptions {
  /** Each gets whole batches; the throughput is that of all devices together. */
  readonly devices: readonly Device[];
  readonly engine: EngineName;
  readonly binding: BindingName;
  readonly precision: Precision;
  /** Undefined: powers of two, up to 64 on the CPU and 256 on a GPU, until the throughput falls or a run fails. */
  readonly batches: readonly number[] | undefined;
  /** The numbers of sessions per device to compare; undefined for one session. */
  readonly sessions: readonly number[] | undefined;
  /** Seconds of timed runs per size. */
  readonly seconds: number;
  readonly signal: AbortSignal | undefined;
  readonly onMeasured?: (measured: BatchMeasurement, way: MeasuredWay) => void;
}

export const MEASURE_MODEL_FIELDS: Fields<
  Pick<MeasureModelOptions, 'binding' | 'batches' | 'sessions' | 'seconds'>
> = {
  binding: LANE_FIELDS.binding,
  batches: optional(counts(1_000_000, 'batch sizes: 1,8,32 (default: powers of two while speed grows)')),
  sessions: optional(counts(4, 'sessions per device to compare: 1,2 (default: 1)')),
  seconds: number(0, 3600, 2, 'seconds of timed runs per batch size'),
};

/** Numbers from 1, one or more. */
function counts(most: number, about: string): Field<readonly number[]> {
  const check = (option: string, value: unknown): readonly number[] => {
    if (!Array.isArray(value) || value.length === 0)
      throw invalidOption(option, `a list of numbers from 1 to ${most}`, value);
    return value.map((count, i) => checkInteger(`${option}[${i}]`, count, 1, most));
  };
  return checkedBy(check, [], about, (text) => text.split(',').map((one) => Number(one) || one));
}

export interface BatchMeasurement {
  readonly rows: number;
  readonly sessionsPerDevice: number;
  /** Rows per second on all devices together, over the timed repetitions. */
  readonly rowsPerSecond: { readonly median: number; readonly min: number; readonly max: number };
  /** Milliseconds of a session for one batch. */
  readonly msPerRun: number;
  /** Milliseconds of the first batch of this size. It does not count: a GPU searches for the fastest algorithms then. */
  readonly firstMs: number;
}

/** How a model ran. */
export interface MeasuredWay {
  readonly devices: readonly string[];
  readonly engine: EngineName;
  /** How that engine is called; null for one that is called in one way. */
  readonly binding: string | null;
  readonly precision: Precision;
  /** How the engine computes what is not in a lower precision. */
  readonly floatPrecision: EnginePrecision;
  /** The version of the engine. */
  readonly runtime: string;
  /** The rows per run that the graph was exported for; null if it takes any number. */
  readonly fixedBatch: number | null;
}

export interface MeasureModelReport extends MeasuredWay {
  readonly measured: readonly BatchMeasurement[];
  /** The smallest batch within 3 % of the highest throughput; of equal batches the one with fewer sessions. */
  readonly best: BatchMeasurement;
  /** Remarks, such as why no larger batch was tried. */
  readonly notes: readonly string[];
}

const MOST_ROWS_CPU = 64;
const MOST_ROWS_GPU = 256;
/** Multiples of a fixed batch run one after the other, so larger multiples change little. */
const MOST_FIXED_RUNS = 4;
const REPETITIONS = 5;
const NEAR_BEST = 0.97;
const SEED = 1;

/** Measures the throughput of a model at growing batch sizes, on made-up input: `tapir bench model`. */
export async function measureModel(
  source: OnnxModel | string,
  returnNodes: ReturnNodes,
  rewriting: Options<RewriteOptions>,
  options: MeasureModelOptions,
): Promise<MeasureModelReport> {
  const { devices, engine, binding, precision, sessions = [1] } = options;
  const pruned = await inPrecision(await pruneModel(source, returnNodes, rewriting), precision, engine);
  const series: Series[] = [];
  for (const sessionsPerDevice of sessions) {
    await using parallel = await createFeatureExtractor(pruned, undefined, {
      outputDtype: 'keep',
      devices,
      engine,
      binding,
      precision: enginePrecision(precision),
      parallel: { split: 'none', sessionsPerDevice },
    });
    series.push(await measureSizes(parallel, sessionsPerDevice, options));
  }
  const [first] = series;
  const measured = series.flatMap((each) => each.measured);
  const notes = [...new Set(series.flatMap((each) => each.notes))];
  return { ...first!.facts, measured, best: pickBatch(measured), notes };
}

/** The measurements with one number of sessions. */
interface Series extends Pick<MeasureModelReport, 'measured' | 'notes'> {
  readonly facts: MeasuredWay;
}

async function measureSizes(
  parallel: DataParallel<string, DType>,
  sessionsPerDevice: number,
  { batches, seconds, signal, onMeasured }: MeasureModelOptions,
): Promise<Series> {
  const fixedBatch = fixedBatchOf(parallel.inputs);
  const { devices, engine, binding, precision, floatPrecision, runtime } = parallel;
  const facts = { devices, engine, binding, precision, floatPrecision, runtime, fixedBatch };
  const measured: BatchMeasurement[] = [];
  const notes: string[] = [];
  if (fixedBatch !== null)
    notes.push(
      `the graph has a fixed batch of ${fixedBatch}: only multiples of it can run, as several runs of ${fixedBatch}`,
    );
  const tried = chooseSizes(batches, fixedBatch, parallel.devices);
  for (const rows of tried) {
    try {
      measured.push(await measureOne(parallel, rows, sessionsPerDevice, { seconds, signal }));
    } catch (error) {
      if (measured.length === 0 || !isRunFailure(error)) throw error;
      notes.push(`a batch of ${rows} failed, so no larger one was tried: ${reasonOf(error)}`);
      break;
    }
    onMeasured?.(measured.at(-1)!, facts);
    if (batches === undefined && hasFallen(measured) && rows !== tried.at(-1)) {
      notes.push(`two sizes in a row were slower than a smaller one, so none above ${rows} was tried`);
      break;
    }
  }
  return { facts, measured, notes };
}

/** The smallest batch whose throughput is within 3 % of the highest; of equal batches the one with fewer sessions. */
export function pickBatch(measured: readonly BatchMeasurement[]): BatchMeasurement {
  const most = Math.max(...measured.map(rateOf));
  const [best] = measured
    .filter((each) => rateOf(each) >= NEAR_BEST * most)
    .toSorted((a, b) => a.rows - b.rows || a.sessionsPerDevice - b.sessionsPerDevice);
  return best!;
}

/** Whether the last two sizes were both slower than the best one before them. */
export function hasFallen(measured: readonly BatchMeasurement[]): boolean {
  const rates = measured.map(rateOf);
  const most = Math.max(...rates.slice(0, -2));
  return rates.length > 2 && rates.slice(-2).every((rate) => rate < NEAR_BEST * most);
}

function rateOf({ rowsPerSecond }: BatchMeasurement): number {
  return rowsPerSecond.median;
}

function fixedBatchOf(inputs: readonly TensorInfo[]): number | null {
  const firsts = inputs.map(({ dims }) => (dims && dims.length > 1 ? dims[0] : undefined));
  if (firsts.some((size) => typeof size === 'string' || size === null)) return null;
  return firsts.find((size) => typeof size === 'number') ?? null;
}

function chooseSizes(
  given: readonly number[] | undefined,
  fixed: number | null,
  devices: readonly string[],
): number[] {
  if (given !== undefined) {
    if (given.some((rows) => rows % (fixed ?? 1) !== 0))
      throw invalidOption('batches', `a list of multiples of ${fixed}, the graph’s fixed batch`, given);
    return [...new Set(given)].toSorted((a, b) => a - b);
  }
  const most = devices.every((device) => device.startsWith('cpu')) ? MOST_ROWS_CPU : MOST_ROWS_GPU;
  const unit = fixed ?? 1;
  const limit = fixed === null ? most : MOST_FIXED_RUNS * fixed;
  return Array.from({ length: 1 + Math.floor(Math.log2(limit / unit)) }, (_, i) => unit * 2 ** i);
}

/** Whether the run itself failed, mostly for lack of memory; not a lost device, not a wrong input. */
function isRunFailure(error: unknown): boolean {
  return (
    isTapirError(error, 'RUN_FAILED') || (isTapirError(error, 'REPLICA_FAILED') && isRunFailure(error.cause))
  );
}

async function measureOne(
  parallel: DataParallel<string, DType>,
  rows: number,
  sessionsPerDevice: number,
  { seconds, signal }: Pick<MeasureModelOptions, 'seconds' | 'signal'>,
): Promise<BatchMeasurement> {
  const given = prunedInternals.of(parallel.model).request.inputSizes;
  const input = inputOf(parallel.inputs, given, rows);
  const sessions = parallel.devices.length * sessionsPerDevice;
  const msOf = async (batches: number): Promise<number> => {
    const inputs = Array.from({ length: batches }, () => input);
    const started = performance.now();
    for await (const _ of parallel.map(inputs, { signal }));
    return performance.now() - started;
  };
  // One batch per session, so that each session sees this size for the first time.
  const firstMs = await msOf(sessions);
  const warmMs = Math.max(0.01, (await msOf(2 * sessions)) / (2 * sessions));
  const batches = Math.max(2 * sessions, Math.round((1000 * seconds) / REPETITIONS / warmMs));
  const perBatch: number[] = [];
  for (let i = 0; i < REPETITIONS; i++) perBatch.push((await msOf(batches)) / batches);
  const sorted = perBatch.toSorted((a, b) => a - b);
  const median = medianOf(perBatch);
  const rate = (ms: number): number => (1000 * rows) / ms;
  return {
    rows,
    sessionsPerDevice,
    rowsPerSecond: { median: rate(median), min: rate(sorted.at(-1)!), max: rate(sorted[0]!) },
    msPerRun: median * sessions,
    firstMs,
  };
}

function inputOf(inputs: readonly TensorInfo[], given: CheckedSizes, rows: number): RunInput {
  const runs = rows / (fixedBatchOf(inputs) ?? rows);
  const fed = chooseDims(inputs, given, { ...FIRST_GUESS, rows }, runs);
  const feeds = seededFeeds(inputs, fed, SEED);
  return Object.fromEntries(feeds.map(({ name, ...tensor }) => [name, tensor]));
}
