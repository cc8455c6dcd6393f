/** The warnings of a data-parallel model, each kind once. */
import { findImbalance } from '../../runtime/devices/balance.js';
import type { Runner } from '../../runtime/replica.js';
import type { Batch } from '../../tensor/batch.js';
import { medianOf } from '../../base/median.js';
import type { Plan } from './parallel-plan.js';

const RUNS_TO_COMPARE = 16;

/** The warnings of one model, by `code` of the process's warnings. */
export class ParallelWarnings {
  readonly #given = new Set<string>();

  /** Warns that some outputs have no axes. */
  scalars(): void {
    this.#warn(
      'TAPIR_SCALARS_GATHERED',
      'outputs without axes were joined to a vector, one element per part of the batch',
    );
  }

  /** Warns that torch’s chunks leave devices idle although there are enough rows. */
  idle(replicas: readonly Runner[], plan: Plan, { rows, fixed }: Batch): void {
    if (!('tasks' in plan) || !rows || rows / (fixed ?? 1) < replicas.length) return;
    const idle = replicas.filter(
      ({ isRemoved }, i) => !isRemoved && !plan.tasks.some(({ replica }) => replica === i),
    );
    if (idle.length === 0) return;
    const names = idle.map(({ device }) => device).join(', ');
    this.#warn(
      'TAPIR_DEVICES_IDLE',
      `split "chunk" leaves ${names} without rows of a batch of ${rows}, as torch does; split "balanced" uses all devices`,
    );
  }

  /** Warns that one device is much slower than another, once they have run often enough to tell. */
  speed(replicas: readonly Runner[]): void {
    const kinds = replicas.map(({ facts: { device } }) => `${device.type} ${device.threads}`);
    // CPU lanes of as many threads differ by chance alone.
    if (kinds.every((kind) => kind.startsWith('cpu') && kind === kinds[0])) return;
    if (replicas.some(({ recentRowMs }) => recentRowMs.length < RUNS_TO_COMPARE)) return;
    const found = findImbalance(
      replicas.map(({ device, recentRowMs }) => ({ device, value: 1 / medianOf(recentRowMs) })),
    );
    if (!found) return;
    const share = ((100 * found.least.value) / found.most.value).toFixed(0);
    this.#warn(
      'TAPIR_DEVICES_UNBALANCED',
      `${found.least.device} runs at ${share} % of the speed of ${found.most.device} and holds it up; pass weights as "split", use "dynamic", or drop this device`,
    );
  }

  #warn(code: string, message: string): void {
    if (this.#given.has(code)) return;
    this.#given.add(code);
    process.emitWarning(message, { code });
  }
}
