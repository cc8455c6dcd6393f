/** Sessions of a rewritten graph on devices, and what they tell about norms. */
import { isTapirError } from '../../base/errors.js';
import {
  momentsType,
  type Norm,
  type NormFeed,
  type NormRewrite,
} from '../../graph/rewrite/norm-statistics.js';
import { checkRunnable } from '../../model/check-runnable.js';
import type { OnnxModel } from '../../model/open-model.js';
import { describeMapped } from '../../model/session-model.js';
import { shareThreads, type ResolvedDevice } from '../../runtime/device.js';
import type { LaneOptions } from '../../runtime/lane-options.js';
import { openAll } from '../../runtime/open-all.js';
import { openReplica, type Replica, type Runner } from '../../runtime/replica.js';
import type { SessionOptions } from '../../runtime/session-options.js';
import { mismatch, makeTensor, nameTensor, type NamedTensor } from '../../tensor/tensor.js';
import { wholePart, type FeedPart } from '../../tensor/tensor-part.js';
import { runTasks, type Outputs, type Task } from '../dispatch.js';
import type { BatchSplit } from './batch-pieces.js';
import type { ChannelMoments, ChannelStatistics } from './channel-moments.js';

/** Where and how graphs run. */
export interface Place {
  readonly model: OnnxModel;
  readonly devices: readonly ResolvedDevice[];
  readonly split: BatchSplit;
  readonly lane: LaneOptions;
  readonly session: SessionOptions;
  readonly signal: AbortSignal | undefined;
  /** Called by each session where device "auto" is the CPU. */
  readonly onFallback: (reason: string) => void;
}

/** Opens a rewritten graph on each device. If one fails, all are closed. */
export async function openOnDevices(
  { model, devices, lane, session, onFallback }: Place,
  graph: NormRewrite,
): Promise<Replica[]> {
  const { rewrite } = graph;
  const opened = await openAll(
    shareThreads(devices, 1).map(async (device) => {
      checkRunnable(rewrite, device);
      return openReplica({ device, lane, sessions: 1, onLaneDeath: 'remove' }, async () => ({
        ...(await describeMapped(model, rewrite, session)),
        device,
        session,
        cudaLibraries: lane.cudaLibraries,
      }));
    }),
    (replica) => replica.close(),
  );
  for (const { facts } of opened) if (facts.fallback !== undefined) onFallback(facts.fallback);
  return opened;
}

export async function closeAll(replicas: readonly Replica[]): Promise<void> {
  await Promise.all(replicas.map((replica) => replica.close()));
}

/**
 * Runs tasks, each on its device. All of them settle before the first failure in order is thrown.
 *
 * @throws {@link TapirError} `REPLICA_FAILED`; on a single device, its cause.
 */
export async function runOn<One extends Task>(
  replicas: readonly Replica[],
  tasks: readonly One[],
  run: (replica: Runner, task: One) => Promise<Outputs>,
  signal: AbortSignal | undefined,
): Promise<Outputs[]> {
  const byRange = new Map(tasks.map((task) => [task.range, task]));
  try {
    return await runTasks(replicas, tasks, (replica, range) => run(replica, byRange.get(range)!));
  } catch (error) {
    signal?.throwIfAborted();
    throw replicas.length === 1 && isTapirError(error, 'REPLICA_FAILED') ? error.cause : error;
  }
}

/** The moments that a run gave for a norm. */
export function readTap({ taps }: NormRewrite, norm: Norm, outputs: Outputs): ChannelMoments {
  const tap = taps.get(norm)!;
  const valuesOf = (name: string): NamedTensor => outputs.find((output) => output.name === name)!;
  const [rows, , ...positions] = Array.from(valuesOf(tap.shape).data as BigInt64Array, Number);
  const count = positions.reduce((product, size) => product * size, rows!);
  const read = (name: string): Float64Array => Float64Array.from(valuesOf(name).data as Float32Array);
  const [rounded, rest, squares] = [read(tap.mean), read(tap.rest), read(tap.variance)];
  // The mean of float32 is off by some rest; the squares are taken around it.
  const mean = rounded.map((value, c) => value + rest[c]!);
  const variance = squares.map((value, c) => Math.max(0, value - rest[c]! ** 2));
  if (![...mean, ...variance].every(Number.isFinite))
    throw mismatch(norm.input.name, 'finite, for moments to exist', 'infinite values or NaN');
  return { count, mean, m2: variance.map((value) => value * count) };
}

/** Statistics as feeds of a rewritten graph. */
export function feedStatistics(
  norm: Norm,
  feed: NormFeed,
  { mean, variance }: ChannelStatistics,
): FeedPart[] {
  const part = (name: string, values: Float64Array): FeedPart => {
    const type = momentsType(norm);
    const data = type === 'float64' ? values : Float32Array.from(values);
    return wholePart(nameTensor(name, makeTensor(type, [norm.channels], data as never)));
  };
  return [part(feed.mean, mean), part(feed.variance, variance)];
}

/** The outputs that a run fetches. */
export function fetchesOf({ rewrite }: NormRewrite): string[] {
  return [...new Set(rewrite.outputs.map(({ tensor }) => tensor))];
}
