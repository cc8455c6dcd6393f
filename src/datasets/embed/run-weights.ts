/** The external weights that a run uses, compared with those of the dataset's earlier runs. */
import { checkSame, compareWeights } from '../records/dataset-identity.js';
import type { RunWeights } from '../records/run-record.js';
import { hashWeights, listWeights, type WeightsFile } from '../../model/prune/identify-weights.js';
import type { OnnxModel } from '../../model/open/open-model.js';

/**
 * Identifies the files with external weights. For a dataset that has recorded them, this compares them before the run starts; files
 * whose stamp is the recorded one are not read. For other datasets, the files are hashed while the run is under way.
 *
 * @param before - The weights of the latest run that recorded them.
 * @param signal - Stops the hashing when it fires.
 * @returns A function that returns the weights. Await it before the first shard counts.
 * @throws {@link TapirError} `DATASET_MISMATCH` for other weights; `MODEL_UNREADABLE`, `MODEL_CHANGED`.
 */
export async function identifyWeights(
  out: string,
  model: OnnxModel,
  locations: readonly string[],
  before: readonly RunWeights[] | undefined,
  signal: AbortSignal,
): Promise<() => Promise<readonly RunWeights[]>> {
  const files = listWeights(model, locations);
  // Different sizes show at once.
  if (before) checkSame(out, compareWeights(before, files));
  const identifying = identifyFiles(model, files, before ?? [], signal);
  if (before) checkSame(out, compareWeights(before, await identifying));
  // The caller of the function gets the error.
  identifying.catch(() => undefined);
  return () => identifying;
}

async function identifyFiles(
  model: OnnxModel,
  files: readonly WeightsFile[],
  known: readonly RunWeights[],
  signal: AbortSignal,
): Promise<readonly RunWeights[]> {
  const weights: RunWeights[] = [];
  for (const file of files) {
    const same = known.find(({ path, stamp }) => path === file.path && stamp === file.stamp);
    weights.push({ ...file, sha256: same?.sha256 ?? (await hashWeights(model, file, signal)) });
  }
  return weights;
}
