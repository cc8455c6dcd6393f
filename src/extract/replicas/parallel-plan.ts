/** Plans which device runs which rows of a batch. Pure: it sees only the state of each device. */
import { deviceRows, evenParts, type Split } from './split.js';
import { cutRange, wholeRanges, type Batch, type RowRange } from '../../tensor/batch.js';
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
 * Plans a batch. Devices that are removed get nothing; an empty batch, or one that has no rows, is one run on the first device.
 *
 * @param microBatch - Rows of a part with split `dynamic`; 0 chooses.
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
  const inPieces = (range: RowRange): RowRange[] => (fixed === null ? [range] : cutRange(range, fixed));
  const unit = fixed ?? 1;
  if (split === 'none') {
    const replica = leastLoaded(devices, usable);
    return { tasks: wholeRanges(batch).map((range) => ({ replica, range })) };
  }
  if (split === 'dynamic') {
    const sessions = usable.reduce((sum, i) => sum + devices[i]!.sessions, 0);
    const size = microBatch || Math.ceil(rows / unit / (PARTS_PER_SESSION * sessions));
    return { ranges: toRanges(evenParts(rows / unit, size), unit).flatMap(inPieces) };
  }
  const shares = typeof split === 'string' ? split : usable.map((i) => split[i]!);
  const hasShare = typeof shares === 'string' || shares.some((weight) => weight > 0);
  const sizes = deviceRows(hasShare ? shares : 'balanced', rows / unit, usable.length);
  const tasks = toRanges(sizes, unit).flatMap((range, i) =>
    inPieces(range).flatMap((piece) => (piece.count > 0 ? [{ replica: usable[i]!, range: piece }] : [])),
  );
  return { tasks };
}

function leastLoaded(devices: readonly DeviceState[], usable: readonly number[]): number {
  const share = (i: number): number => devices[i]!.load / devices[i]!.sessions;
  return usable.toSorted((a, b) => share(a) - share(b) || devices[a]!.runs - devices[b]!.runs)[0]!;
}

function toRanges(sizes: readonly number[], unit: number): RowRange[] {
  let start = 0;
  return sizes.map((size) => {
    const range = { start, count: size * unit };
    start += range.count;
    return range;
  });
}
