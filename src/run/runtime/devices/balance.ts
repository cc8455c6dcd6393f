/**
 * Finds a device that slows the others down. torch's DataParallel warns if a GPU has less than 75 % of the memory or the cores of
 * another one.
 */
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import { describeGpus, type CudaDevice } from './device-list.js';
import { listGpus } from './nvidia-smi.js';

/** A device and a number to compare: bytes of memory, or rows per second. */
export interface DeviceFigure {
  readonly device: string;
  readonly value: number;
}

const LEAST_SHARE = 0.75;

/** The devices with the smallest and the largest value, if the smallest is less than 75 % of the largest; else undefined. */
export function findImbalance(
  figures: readonly DeviceFigure[],
): { readonly least: DeviceFigure; readonly most: DeviceFigure } | undefined {
  const sorted = figures.toSorted((a, b) => a.value - b.value);
  const least = sorted[0];
  const most = sorted.at(-1);
  if (!least || !most || !(least.value / most.value < LEAST_SHARE)) return undefined;
  return { least, most };
}

/** The memory of those devices that are listed GPUs without slices. */
export function memoryFigures(
  devices: readonly ResolvedDevice[],
  listed: readonly CudaDevice[],
): DeviceFigure[] {
  return devices.flatMap((device) => {
    const found = listed.find((gpu) =>
      device.uuid === undefined ? gpu.index === device.id : gpu.uuid?.startsWith(device.uuid),
    );
    const value = found?.memoryBytes ?? null;
    const isWhole = device.type === 'cuda' && found?.migSlices.length === 0;
    return isWhole && value !== null ? [{ device: deviceName(device), value }] : [];
  });
}

/** Bytes of memory of the smallest of some GPUs: infinite for none, and 0 if that of one is unknown. */
export async function leastMemory(devices: readonly ResolvedDevice[]): Promise<number> {
  if (devices.length === 0) return Infinity;
  const figures = memoryFigures(devices, describeGpus(await listGpus()));
  return figures.length < devices.length ? 0 : Math.min(...figures.map(({ value }) => value));
}

/** Emits the warning `TAPIR_DEVICES_UNBALANCED` if GPUs that will share a batch differ in memory. */
export async function warnOfMemory(devices: readonly ResolvedDevice[]): Promise<void> {
  if (devices.filter(({ type }) => type === 'cuda').length < 2) return;
  const found = findImbalance(memoryFigures(devices, describeGpus(await listGpus())));
  if (!found) return;
  const { least, most } = found;
  const share = ((100 * least.value) / most.value).toFixed(0);
  process.emitWarning(
    `${least.device} has ${share} % of the memory of ${most.device} and slows it down; pass weights as split, use "dynamic", or drop this device`,
    { code: 'TAPIR_DEVICES_UNBALANCED' },
  );
}
