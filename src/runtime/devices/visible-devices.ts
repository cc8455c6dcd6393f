/** Which GPUs a process sees: CUDA_VISIBLE_DEVICES, read as the CUDA runtime reads it. */
import type { Gpu, MigSlice } from './gpu.js';

/** A GPU that CUDA counts, at its place in the count. */
export interface VisibleGpu {
  readonly gpu: Gpu;
  /** The slice, where one is named. */
  readonly slice?: MigSlice;
}

/**
 * Selects the GPUs that CUDA sees, in its order.
 *
 * Not set: all. Else a list of indices and of beginnings of UUIDs (`GPU-…`, `MIG-…`): the first entry that names nothing ends it,
 * and one that is repeated makes it empty. So the CUDA programming guide, "Environment variables", and torch.cuda.
 *
 * @param gpus - All GPUs, by PCI bus id.
 * @param list - The variable.
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
  // CUDA reads the digits at the beginning and leaves the rest.
  const index = /^\+?(\d{1,9})/.exec(entry)?.[1];
  const gpu = index === undefined ? undefined : gpus[Number(index)];
  return gpu && { gpu };
}

/** The one that a beginning of a UUID stands for. */
function only(found: readonly VisibleGpu[]): VisibleGpu | undefined {
  return found.length === 1 ? found[0] : undefined;
}
