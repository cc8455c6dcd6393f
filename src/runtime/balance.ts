/** Whether one device holds the others up: torch's DataParallel warns when one has less than 75 % of another's memory or speed. */

/** A device and a figure of it: bytes of memory, or rows per second. */
export interface DeviceFigure {
  readonly device: string;
  readonly value: number;
}

const LEAST_SHARE = 0.75;

/** The smallest and the largest, if the smallest is below 75 % of it; undefined if the devices are balanced. */
export function findImbalance(
  figures: readonly DeviceFigure[],
): { readonly least: DeviceFigure; readonly most: DeviceFigure } | undefined {
  const sorted = figures.toSorted((a, b) => a.value - b.value);
  const least = sorted[0];
  const most = sorted.at(-1);
  if (!least || !most || !(least.value / most.value < LEAST_SHARE)) return undefined;
  return { least, most };
}
