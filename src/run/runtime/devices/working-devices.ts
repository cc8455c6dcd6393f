/** The devices that models can run on here: each is tried, in a process of its own. */
import { readDevice, type Device } from '../lanes/device.js';
import { listDevices } from './device-list.js';
import { probeDevice } from './probe.js';

const TIMEOUT_MS = 60_000;

/** Lists the CPU, and of the other devices the first of each name on which a small model runs. */
export async function listWorkingDevices(signal?: AbortSignal): Promise<Device[]> {
  const working: Device[] = [];
  const tried = new Set<string>();
  const options = { timeoutMs: TIMEOUT_MS, cudaLibraries: undefined, signal };
  for (const { type, device, name, isUsable } of await listDevices()) {
    if (isUsable === false || tried.has(name)) continue;
    tried.add(name);
    // oxlint-disable-next-line no-await-in-loop -- two processes that start WebGPU or CUDA at once would disturb each other
    if (type === 'cpu' || (await probeDevice(readDevice('device', device), options)).isWorking)
      working.push(device);
    signal?.throwIfAborted();
  }
  return working;
}
