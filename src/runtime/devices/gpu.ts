/** A GPU as the NVIDIA driver describes it. */

/** A slice of a GPU that is divided (multi-instance GPU). */
export interface MigSlice {
  readonly uuid: string;
  /** Its size as NVIDIA names it: `1g.5gb`. */
  readonly profile: string;
}

/** A GPU; `null` is a figure that the driver does not tell. */
export interface Gpu {
  readonly name: string;
  readonly uuid: string | null;
  readonly pciBusId: string | null;
  readonly memoryBytes: number | null;
  readonly freeBytes: number | null;
  readonly driverVersion: string | null;
  /** Such as `8.0`. */
  readonly computeCapability: string | null;
  /** Whether it is divided into slices, or can only be used so. */
  readonly isDivided: boolean;
  readonly migSlices: readonly MigSlice[];
}

/** Orders PCI bus ids by their numbers: domains are written with four digits here, with eight there. */
export function compareBusIds(a: string, b: string): number {
  const numbers = (id: string): number[] => id.split(/[:.]/).map((part) => Number.parseInt(part, 16));
  const left = numbers(a);
  const right = numbers(b);
  const at = left.findIndex((part, i) => part !== right[i]);
  return at < 0 ? 0 : (left[at] ?? 0) - (right[at] ?? 0);
}
