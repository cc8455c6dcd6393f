/** Plans which device runs which rows of a batch. Pure: it sees only the state of each device. */
import { deviceRows, type BatchSplit, type Split } from './split.js';
import { cutRange, wholeRanges, type Batch, type RowRange } from '../../onnx/tensor/batch.js';
import type { Task } from './dispatch.js';

/** Runs on named devices, or rows for whichever is free. */
export type Plan = { readonly tasks: readonly Task[] } | { readonly ranges: readonly RowRange[] };

/** The state of a device that the plan depends on. */
export interface DeviceState {
  readonly isRemoved: boolean;
  /** Runs that wait or are in progress. */
  readonly load: number;
  readonly sessions: number;
  /** Runs so far. */
  readonly runs: number;
}

/** Parts per session of a dynamically split batch: enough to balance the load, few enough to stay large. */
const PARTS_PER_SESSION = 4;

/**
 * Plans a batch. Removed devices get nothing; a batch without rows is one run on the first device. `microBatch` is for split `dynamic`; 0
 * chooses.
 */
export function planBatch(
  batch: Batch,
  split: Split,
  devices: readonly DeviceState[],
  microBatch: number,
): Plan {
  const active = devices.flatMap(({ isRemoved }, i) => (isRemoved ? [] : [i]));
  // If no device is left, the first one gives the reason.
  const usable = active.length > 0 ? active : [0];
  const { rows, fixed } = batch;
  if (!rows) return { tasks: [{ replica: usable[0]!, range: { start: 0, count: 0 } }] };
  if (split === 'none') {
    const replica = leastLoaded(devices, usable);
    return { tasks: wholeRanges(batch).map((range) => ({ replica, range })) };
  }
  if (split === 'dynamic') {
    const sessions = usable.reduce((sum, i) => sum + devices[i]!.sessions, 0);
    const size = microBatch || Math.ceil(rows / (PARTS_PER_SESSION * sessions));
    return { ranges: cutRange({ start: 0, count: rows }, fixed ?? size) };
  }
  const shares = typeof split === 'string' ? split : usable.map((i) => split[i]!);
  const hasShare = typeof shares === 'string' || shares.some((weight) => weight > 0);
  return { tasks: shareRows(batch, hasShare ? shares : 'balanced', usable) };
}

/** Shares the rows of a batch out. A device runs them in pieces: of the fixed batch, else of at most `most` rows. */
export function shareRows(
  { rows, fixed }: Batch,
  split: BatchSplit,
  devices: readonly number[],
  most: number = Infinity,
): Task[] {
  const unit = fixed ?? 1;
  let start = 0;
  return deviceRows(split, (rows ?? 1) / unit, devices.length).flatMap((units, i) => {
    const range = { start, count: units * unit };
    start += range.count;
    const pieces = units === 0 ? [] : cutRange(range, Math.min(fixed ?? most, range.count));
    return pieces.map((piece) => ({ replica: devices[i]!, range: piece }));
  });
}

function leastLoaded(devices: readonly DeviceState[], usable: readonly number[]): number {
  const share = (i: number): number => devices[i]!.load / devices[i]!.sessions;
  return usable.toSorted((a, b) => share(a) - share(b) || devices[a]!.runs - devices[b]!.runs)[0]!;
}
