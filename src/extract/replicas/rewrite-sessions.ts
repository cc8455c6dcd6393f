/** Sessions of a rewritten graph: one on each device. */
import type { Rewrite } from '../../onnx/graph/rewrite/rewrite.js';
import { checkRunnable } from '../../run/model/open/check-runnable.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { describeModel, type ModelDescription } from '../../run/model/lanes/session-model.js';
import { describeMapped } from '../../run/model/lanes/weights-in-file.js';
import { shareThreads, type ResolvedDevice } from '../../run/runtime/lanes/device.js';
import type { LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import type { LaneDescription } from '../../run/runtime/lanes/protocol.js';
import { openAll } from '../../run/runtime/open-all.js';
import { openReplica, type Replica, type Runner } from '../../run/runtime/replica.js';
import type { SessionOptions } from '../../run/runtime/lanes/session-options.js';
import type { BatchSplit } from './split.js';
import { outputsOfRuns, runTasks, type Outputs, type Task } from './dispatch.js';

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
export function openOnDevices(place: Place, rewrite: Rewrite): Promise<Replica[]> {
  return openOn(place, [rewrite], () => describeMapped(place.model, rewrite, place.session));
}

async function openOn(
  { devices, lane, session, onFallback }: Omit<Place, 'model'>,
  rewrites: readonly Rewrite[],
  describe: () => Promise<ModelDescription & Pick<LaneDescription, 'further'>>,
): Promise<Replica[]> {
  const { cudaLibraries } = lane;
  const opening = shareThreads(devices, 1).map((device) =>
    openReplica({ device, lane, sessions: 1, onLaneDeath: 'remove' }, async () => {
      for (const rewrite of rewrites) checkRunnable(rewrite, device);
      return { ...(await describe()), device, session, cudaLibraries };
    }),
  );
  const opened = await openAll(opening, (replica) => replica.close());
  for (const { facts } of opened) if (facts.fallback !== undefined) onFallback(facts.fallback);
  return opened;
}

/** A rewritten model. */
export interface Part {
  readonly model: OnnxModel;
  readonly rewrite: Rewrite;
}

/** Opens several graphs on each device, which share its lane: a run goes to the one that has what it fetches. The keys of all outputs differ. */
export function openPartsOnDevices(place: Omit<Place, 'model'>, parts: readonly Part[]): Promise<Replica[]> {
  const rewrites = parts.map(({ rewrite }) => rewrite);
  return openOn(place, rewrites, async () => {
    const described = await Promise.all(
      parts.map(({ model, rewrite }) => describeModel(model, rewrite, 'keys')),
    );
    const [first, ...others] = described;
    const further = others.map(({ model }) => model);
    return { ...first!, further, hostNodes: described.flatMap((one) => one.hostNodes ?? []) };
  });
}

export async function closeAll(replicas: readonly Replica[]): Promise<void> {
  await Promise.all(replicas.map((replica) => replica.close()));
}

/** Runs tasks, each on its device. All settle before the first failure in order is thrown: `REPLICA_FAILED`, or its cause on a single device. */
export function runOn<One extends Task>(
  replicas: readonly Replica[],
  tasks: readonly One[],
  run: (replica: Runner, task: One) => Promise<Outputs>,
  signal: AbortSignal | undefined,
): Promise<Outputs[]> {
  return outputsOfRuns(runTasks(replicas, tasks, run), replicas.length > 1, signal);
}
