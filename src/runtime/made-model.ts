/** Sessions of small models that the package makes itself. */
import { readDevice, type Device } from './lanes/device.js';
import { LANE_DEFAULTS } from './lanes/lane-options.js';
import { openReplica, type Replica } from './replica.js';
import { readSessionOptions, type SessionOptions } from './lanes/session-options.js';

/** Opens one session of a model in memory. If its lane dies, runs fail. */
export async function openMadeModel(
  model: Uint8Array<ArrayBuffer>,
  given: Device,
  options: Partial<SessionOptions> = {},
): Promise<Replica> {
  const device = readDevice('device', given);
  const session = readSessionOptions(options);
  return openReplica({ device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'remove' }, async () => ({
    model,
    externalFolder: undefined,
    device,
    session,
  }));
}
