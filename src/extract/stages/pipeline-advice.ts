/** What would make a pipeline faster: copies of the whole model, or more devices for its slowest stage. */
import { totalmem } from 'node:os';
import { leastMemory } from '../../run/runtime/devices/balance.js';
import type { ResolvedDevice } from '../../run/runtime/lanes/device.js';
import type { ModelStage } from './split-model.js';

/** A model needs its weights, and about as much again for activations and the engine. */
const MEMORY_PER_WEIGHT = 2;
/** Runs that a measured time needs to mean something. */
const RUNS_TO_JUDGE = 16;
/** A stage that is slower than the next slowest by less does not pay for a device. */
const MUCH_SLOWER = 1.25;

/** Advises copies of the whole model if each device could hold it, as far as their memory is known. */
export async function adviseReplicas(
  stages: readonly ModelStage[],
  devices: readonly ResolvedDevice[],
): Promise<string | null> {
  const needed = MEMORY_PER_WEIGHT * stages.reduce((sum, { weightBytes }) => sum + weightBytes, 0);
  const onCpu = devices.filter(({ type }) => type === 'cpu').length;
  if (needed * onCpu > totalmem()) return null;
  const memory = await leastMemory(devices.filter(({ type }) => type !== 'cpu'));
  if (stages.length < 2 || memory < needed) return null;
  return 'the whole model fits on each of these devices: DataParallel runs a copy on each, so nothing crosses and no stage waits for another';
}

/** What the stages of a pipeline have taken. */
export interface StageTime {
  readonly runMs: number;
  readonly runs: number;
  readonly devices: number;
}

/** Advises more devices for the stage that the others wait for, by the times that were measured. */
export function adviseDevices(stages: readonly StageTime[]): string | null {
  if (stages.length < 2 || stages.some(({ runs }) => runs < RUNS_TO_JUDGE)) return null;
  const each = stages.map(({ runMs, devices }) => runMs / devices);
  const slowest = each.indexOf(Math.max(...each));
  const next = Math.max(...each.filter((_, i) => i !== slowest));
  const { runMs, devices } = stages[slowest]!;
  if (each[slowest]! < MUCH_SLOWER * next) return null;
  const total = stages.reduce((sum, stage) => sum + stage.runMs, 0);
  const enough = Math.max(devices + 1, Math.round(runMs / next));
  return `stage ${slowest} takes ${((100 * runMs) / total).toFixed(0)} % of the time on ${devices === 1 ? 'one device' : `${devices} devices`}, and the others wait for it: ${enough} devices would balance the stages; give it more in "stages", or choose other cuts`;
}
