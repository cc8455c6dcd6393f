/** BatchNorm statistics estimated anew. */
import type { Options } from '../../base/checks.js';
import type { BatchSource } from '../../extract/statistics/batch-pieces.js';
import type { EstimateOptions } from '../../extract/statistics/estimate-options.js';
import { estimateStatistics, type BatchNormEstimate } from '../../extract/statistics/estimate-statistics.js';
import { readModel, type ModelSource, type OnnxModel } from '../../model/open-model.js';

/**
 * Estimates a model's BatchNorm statistics anew, from data of the domain that it is used in, and writes them into a new model.
 *
 * @param model - A model, or where to open one. It does not change.
 * @param source - Batches: an (async) iterable of tensors, or of tensors by input name. Leave them unchanged until the call settles.
 * @param given - See {@link EstimateOptions}; `mode` is required.
 * @returns The new model, the statistics of each norm, and the moments of all rows.
 * @throws {@link TapirError} `NORMS_UNAVAILABLE` if there are no norms, or if the exporter folded them and nothing is known of them;
 * `INPUT_MISMATCH`, also for a single value per channel in train mode; `BATCH_FIXED`; `SOURCE_INVALID` for a source without rows;
 * `OPTION_INVALID`; `REPLICA_FAILED`; `RUN_FAILED`; `STATE_AMBIGUOUS`; `STATE_MISMATCH`; `MOMENTS_INVALID`; those of {@link openModel}.
 *
 * @example
 * ```ts
 * import { estimateBatchNorm } from 'onnx-tapir';
 *
 * const batch = { dims: [8, 3, 224, 224], data: new Float32Array(8 * 3 * 224 * 224) };
 * const { model, layers } = await estimateBatchNorm('resnet50.onnx', [batch], { mode: 'synced', devices: ['cpu:0', 'cpu:1'] });
 * console.log(layers[0]?.name, layers[0]?.count); // bn1 100352
 * await model.save('resnet50-adapted.onnx');
 * ```
 */
export async function estimateBatchNorm(
  model: OnnxModel | ModelSource,
  source: BatchSource,
  given: Options<EstimateOptions>,
): Promise<BatchNormEstimate> {
  return estimateStatistics(readModel(model), source, given);
}
