/** Identifying the external weights of a model by their content. */
import { modelChanged } from '../../base/file-stamp.js';
import { digestSource } from '../../onnx/emit.js';
import { locateExternal } from '../../onnx/external-data.js';
import { openFileSource, type FileSource } from '../../onnx/wire/source.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';

/** A file with external weights. */
export interface WeightsFile {
  /** As the model states it, relative to the model's folder. */
  readonly path: string;
  readonly bytes: number;
  /** Differs after the file was replaced or written to. */
  readonly stamp: string;
}

/** Looks at files with external weights without reading them. Throws `MODEL_UNREADABLE`. */
export function listWeights(model: OnnxModel, locations: readonly string[]): WeightsFile[] {
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
export async function hashWeights(
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
