/** The runs of one batch on several devices. All of them settle; then the first failure in order is thrown. */
import { isTapirError, reasonOf, TapirError } from '../../base/errors.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import { RUNS_PER_SESSION } from '../../run/runtime/lane-pool.js';
import type { Runner } from '../../run/runtime/replica.js';
import type { RowRange } from '../../onnx/tensor/batch.js';

/** Outputs of a run. */
export type Outputs = readonly NamedTensor[];

/** Runs a range of the batch on a device. */
export type RunOn = (replica: Runner, range: RowRange) => Promise<Outputs>;

/** A range of rows, and the index of the replica that runs it. */
export interface Task {
  readonly replica: number;
  readonly range: RowRange;
}

interface Failure extends Task {
  readonly error: unknown;
}

/** Runs each task on its device; returns the outputs in the order of the tasks. */
export async function runTasks<One extends Task>(
  replicas: readonly Runner[],
  tasks: readonly One[],
  run: (replica: Runner, task: One) => Promise<Outputs>,
): Promise<Outputs[]> {
  const failures: Failure[] = [];
  const results = await Promise.all(
    tasks.map(async (task) => {
      try {
        return await run(replicas[task.replica]!, task);
      } catch (error) {
        failures.push({ replica: task.replica, range: task.range, error });
        return [];
      }
    }),
  );
  throwFirst(failures, replicas);
  return results;
}

/** Gives each range to a device that is free; returns the outputs in the order of the ranges. */
export async function runDynamic(
  replicas: readonly Runner[],
  ranges: readonly RowRange[],
  run: RunOn,
): Promise<Outputs[]> {
  const failures: Failure[] = [];
  const results: Outputs[] = [];
  let next = 0;
  const work = async (replica: number): Promise<void> => {
    while (next < ranges.length && failures.length === 0) {
      const at = next++;
      const range = ranges[at]!;
      try {
        results[at] = await run(replicas[replica]!, range);
      } catch (error) {
        failures.push({ replica, range, error });
      }
    }
  };
  // Each device gets its first range before any device gets a second one.
  const workers = Array.from({ length: RUNS_PER_SESSION }, () =>
    replicas.flatMap(({ devices, isRemoved }, i) => (isRemoved ? [] : devices.map(() => i))),
  ).flat();
  await Promise.all(workers.map(work));
  throwFirst(failures, replicas);
  return results;
}

/** The outputs of runs. If they failed: the signal's reason if it fired, and on a single device the cause of `REPLICA_FAILED`. */
export async function outputsOfRuns(
  running: Promise<Outputs[]>,
  isParallel: boolean,
  signal: AbortSignal | undefined,
): Promise<Outputs[]> {
  try {
    return await running;
  } catch (error) {
    signal?.throwIfAborted();
    throw !isParallel && isTapirError(error, 'REPLICA_FAILED') ? error.cause : error;
  }
}

function throwFirst(failures: readonly Failure[], replicas: readonly Runner[]): void {
  if (failures.length === 0) return;
  const [first, ...others] = failures.toSorted(
    (a, b) => a.replica - b.replica || a.range.start - b.range.start,
  );
  const errors = others.map((other) => failed(other, replicas));
  throw failed(first!, replicas, errors);
}

function failed(
  { replica, range, error }: Failure,
  replicas: readonly Runner[],
  errors: readonly Error[] = [],
): TapirError {
  const { device } = replicas[replica]!;
  const rows =
    range.count === 1 ? `row ${range.start}` : `rows ${range.start} to ${range.start + range.count - 1}`;
  const more = errors.length === 0 ? '' : ` (and ${errors.length} more failed, see "errors")`;
  return new TapirError(
    'REPLICA_FAILED',
    `replica ${replica} on ${device} failed for ${rows}${more}: ${reasonOf(error)}`,
    { details: { replica, device }, cause: error, errors },
  );
}
