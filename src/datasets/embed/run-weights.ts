/** The external weights that a run uses, compared with those of the dataset's earlier runs. */
import { checkSame, compareWeights } from '../records/dataset-identity.js';
import type { RunWeights } from '../records/run-record.js';
import { modelChanged } from '../../base/file-stamp.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { digestSource } from '../../onnx/file/emit.js';
import { locateExternal } from '../../onnx/file/external-data.js';
import { openFileSource, type FileSource } from '../../onnx/file/wire/source.js';

/**
 * Identifies the files with external weights. For a dataset that has recorded them, this compares them before the run starts; files
 * whose stamp is the recorded one are not read. For other datasets, the files are hashed while the run is under way.
 *
 * @param before - The weights of the latest run that recorded them.
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

/** A file with external weights, before it was read. */
type WeightsFile = Omit<RunWeights, 'sha256'>;

/** Looks at files with external weights without reading them. Throws `MODEL_UNREADABLE`. */
function listWeights(model: OnnxModel, locations: readonly string[]): WeightsFile[] {
  return locations.map((path) => {
    const source = openWeights(model, path);
    source.close();
    return { path, bytes: source.sizeBytes, stamp: source.stamp };
  });
}

/**
 * Computes the SHA-256 of a file with external weights. The event loop gets turns in between.
 *
 * @throws {@link TapirError} `MODEL_CHANGED` if the file is no longer the one that was looked at; `MODEL_UNREADABLE`; the
 * signal's reason.
 */
async function hashWeights(
  model: OnnxModel,
  { path, stamp }: WeightsFile,
  signal: AbortSignal,
): Promise<string> {
  const source = openWeights(model, path);
  try {
    const sha256 = await digestSource(source, signal);
    if (source.stamp !== stamp || listWeights(model, [path])[0]!.stamp !== stamp)
      throw modelChanged(source.path);
    return sha256;
  } finally {
    source.close();
  }
}

function openWeights(model: OnnxModel, location: string): FileSource {
  // A model in memory has no external weights.
  return openFileSource(locateExternal(modelInternals.of(model).folder!, location));
}
