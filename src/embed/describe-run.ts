/** Describes a run as the plain records that a dataset holds. */
import type { DatasetIdentity } from '../dataset/dataset-identity.js';
import type { ModelIdentity, RunRecord } from '../dataset/run-record.js';
import type { Extractor } from '../extract/extractor.js';
import type { EmbedSetup } from './embed-options.js';

/** Describes what all runs into a dataset must have in common. */
export function describeIdentity(
  extractor: Extractor,
  { bytes, sha256 }: Pick<ModelIdentity, 'bytes' | 'sha256'>,
  { transform, keepDims, checksum }: EmbedSetup,
  { dtype, format }: Pick<DatasetIdentity, 'dtype' | 'format'>,
): DatasetIdentity {
  const { limitPixels: _, ...options } = transform.options;
  const { resolved } = extractor.model.plan;
  return {
    model: { bytes, sha256 },
    request: resolved.map(({ key, tensor, computed }) => ({ key, tensor, computed })),
    transform: options,
    keepDims,
    dtype,
    format,
    checksum,
  };
}

/** Describes the model and the settings of a run for the manifest. */
export function describeRun(extractor: Extractor, setup: EmbedSetup, model: RunRecord['model']): RunRecord {
  const { transform, batch, keepDims, takesPixels } = setup;
  const { plan } = extractor.model;
  return {
    model,
    request: plan.resolved,
    transform: { preset: transform.preset, ...transform.options },
    onnxruntime: extractor.runtime,
    device: extractor.device,
    batch,
    batchMode: plan.batch?.mode ?? null,
    keepDims,
    normalize: extractor.imageNormalization ? 'graph' : takesPixels ? 'model' : 'cpu',
  };
}
