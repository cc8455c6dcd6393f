/** GPUs as the NVIDIA driver describes them. */

/** A slice of a divided GPU (multi-instance GPU). */
export interface MigSlice {
  readonly uuid: string;
  /** NVIDIA's name for its size: `1g.5gb`. */
  readonly profile: string;
}

/** A GPU. A field is `null` if the driver does not report it. */
export interface Gpu {
  readonly name: string;
  readonly uuid: string | null;
  readonly pciBusId: string | null;
  readonly memoryBytes: number | null;
  readonly freeBytes: number | null;
  readonly driverVersion: string | null;
  /** For example `8.0`. */
  readonly computeCapability: string | null;
  /** Whether it is divided into slices, or in the mode for it. */
  readonly isDivided: boolean;
  readonly migSlices: readonly MigSlice[];
}

/** Compares PCI bus ids by number: nvidia-smi writes domains with eight digits, the driver's files with four. */
export function compareBusIds(a: string, b: string): number {
  const numbers = (id: string): number[] => id.split(/[:.]/).map((part) => Number.parseInt(part, 16));
  const left = numbers(a);
  const right = numbers(b);
  const at = left.findIndex((part, i) => part !== right[i]);
  return at < 0 ? 0 : (left[at] ?? 0) - (right[at] ?? 0);
}
