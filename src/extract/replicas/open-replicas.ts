/** Opening a pruned model on several devices. */
import { keyOf, shareThreads, type ResolvedDevice } from '../../run/runtime/lanes/device.js';
import { warnOfMemory } from '../../run/runtime/devices/balance.js';
import { openAll } from '../../run/runtime/open-all.js';
import { openReplica, type Runner } from '../../run/runtime/replica.js';
import { describeLanes } from '../../run/model/lanes/describe-lanes.js';
import type { SessionSetup } from '../../run/model/lanes/session-model.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import { holdReplica, releaseReplica } from './replica-set.js';
import type { ParallelOptions } from './parallel-options.js';

type OpenOptions = Pick<ParallelOptions, 'sessionsPerDevice' | 'onLaneDeath'>;

/**
 * Opens a model on each device at once. If one fails, all are closed, and the first failure in order is thrown.
 *
 * @param existing - An open replica of the model. It is used for its device if the session is the one that would be opened there.
 * @returns The replicas in the order of the devices; the caller holds each of them once.
 */
export async function openReplicas(
  pruned: PrunedModel | Promise<PrunedModel>,
  devices: readonly ResolvedDevice[],
  setup: SessionSetup,
  options: OpenOptions,
  existing?: Runner,
): Promise<Runner[]> {
  const { sessionsPerDevice: sessions, onLaneDeath } = options;
  const shared = existing ? devices.findIndex((device) => canShare(existing, device, devices, options)) : -1;
  if (shared >= 0) holdReplica(existing!);
  const opened = devices.length - (shared < 0 ? 0 : 1);
  const describe = describeLanes(pruned, setup, opened * sessions);
  const balance = warnOfMemory(devices);
  const opening = shareThreads(devices, sessions).map(async (device, i) =>
    i === shared
      ? existing!
      : openReplica({ device, lane: setup.lane, sessions, onLaneDeath }, describe(device)),
  );
  try {
    return await openAll(opening, releaseReplica);
  } finally {
    await balance;
  }
}

/** Whether the session of a replica is the one that would be opened on a device of a list. */
function canShare(
  replica: Runner,
  device: ResolvedDevice,
  devices: readonly ResolvedDevice[],
  { sessionsPerDevice, onLaneDeath }: OpenOptions,
): boolean {
  const own = replica.facts.device;
  if (replica.devices.length !== sessionsPerDevice || replica.onLaneDeath !== onLaneDeath) return false;
  if (keyOf(own) !== keyOf(device)) return false;
  if (device.threads !== 0 && device.threads !== own.threads) return false;
  // A session that uses all cores beside other CPU lanes costs a third of the speed: their threads wait for each other.
  const isCrowded = devices.filter(({ type }) => type === 'cpu').length > 1;
  return !(own.type === 'cpu' && own.threads === 0 && isCrowded);
}
