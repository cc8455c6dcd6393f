/** Sessions of a rewritten graph: one on each device. */
import { isTapirError } from '../base/errors.js';
import type { Rewrite } from '../graph/rewrite/rewrite.js';
import { checkRunnable } from '../model/check-runnable.js';
import type { OnnxModel } from '../model/open-model.js';
import { describeMapped } from '../model/session-model.js';
import { shareThreads, type ResolvedDevice } from '../runtime/device.js';
import type { LaneOptions } from '../runtime/lane-options.js';
import { openAll } from '../runtime/open-all.js';
import { openReplica, type Replica, type Runner } from '../runtime/replica.js';
import type { SessionOptions } from '../runtime/session-options.js';
import type { BatchSplit } from './batch-pieces.js';
import { runTasks, type Outputs, type Task } from './dispatch.js';

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
  rewrite: Rewrite,
): Promise<Replica[]> {
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

/** The outputs that a run fetches. */
export function fetchesOf({ outputs }: Rewrite): string[] {
  return [...new Set(outputs.map(({ tensor }) => tensor))];
}
