/** A pruned model on several devices. */
import { warnOfMemory } from '../runtime/devices/balance.js';
import { shareThreads, type ResolvedDevice } from '../runtime/device.js';
import { openReplica, type Replica } from '../runtime/replica.js';
import { describeLanes } from './describe-lanes.js';
import type { SessionSetup } from './feature-model.js';
import type { ParallelOptions } from './parallel-options.js';
import type { PrunedModel } from '../model/pruned-model.js';

/** Opens a model on each device at once; if one fails, all are closed and the first failure in order is thrown. */
export async function openReplicas(
  pruned: PrunedModel | Promise<PrunedModel>,
  devices: readonly ResolvedDevice[],
  setup: SessionSetup,
  { sessionsPerDevice, onLaneDeath }: Pick<ParallelOptions, 'sessionsPerDevice' | 'onLaneDeath'>,
): Promise<Replica[]> {
  const describe = describeLanes(pruned, setup, devices.length * sessionsPerDevice);
  const balance = warnOfMemory(devices);
  const opening = await Promise.allSettled(
    shareThreads(devices, sessionsPerDevice).map((device) =>
      openReplica({ device, lane: setup.lane, sessions: sessionsPerDevice, onLaneDeath }, describe(device)),
    ),
  );
  await balance;
  const replicas = opening.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failed = opening.find((result) => result.status === 'rejected');
  if (!failed) return replicas;
  await Promise.all(replicas.map((replica) => replica.close()));
  throw failed.reason;
}
