/** Finds the GPUs that a process sees: reads CUDA_VISIBLE_DEVICES as the CUDA runtime does. */
import type { Gpu, MigSlice } from './gpu.js';

/** A GPU that CUDA sees. */
export interface VisibleGpu {
  readonly gpu: Gpu;
  /** The slice, if the variable names one. */
  readonly slice?: MigSlice;
}

/**
 * Selects the GPUs that CUDA sees, in its order.
 *
 * If the variable is not set, these are all GPUs. Otherwise it is a list of indices and of beginnings of UUIDs (`GPU-…`, `MIG-…`).
 * The list ends at the first entry that matches nothing, and a repeated entry makes it empty. Source: the CUDA programming guide,
 * "Environment variables", and torch.cuda.
 *
 * @param gpus - All GPUs, ordered by PCI bus id.
 * @param list - Value of the variable.
 */
export function selectVisible(gpus: readonly Gpu[], list: string | undefined): VisibleGpu[] {
  if (list === undefined) return gpus.map((gpu) => ({ gpu }));
  const chosen: VisibleGpu[] = [];
  for (const entry of list.split(',')) {
    const found = findEntry(gpus, entry.trim());
    if (!found) break;
    if (chosen.some(({ gpu, slice }) => gpu === found.gpu && slice === found.slice)) return [];
    chosen.push(found);
  }
  return chosen;
}

function findEntry(gpus: readonly Gpu[], entry: string): VisibleGpu | undefined {
  if (entry.startsWith('GPU-'))
    return only(gpus.filter(({ uuid }) => uuid?.startsWith(entry)).map((gpu) => ({ gpu })));
  if (entry.startsWith('MIG-')) {
    const all = gpus.flatMap((gpu) => gpu.migSlices.map((slice) => ({ gpu, slice })));
    return only(all.filter(({ slice }) => slice.uuid.startsWith(entry)));
  }
  // CUDA reads the digits at the beginning and ignores the rest.
  const index = /^\+?(\d{1,9})/.exec(entry)?.[1];
  const gpu = index === undefined ? undefined : gpus[Number(index)];
  return gpu && { gpu };
}

/** The match for the beginning of a UUID, if there is exactly one. */
function only(found: readonly VisibleGpu[]): VisibleGpu | undefined {
  return found.length === 1 ? found[0] : undefined;
}
