/** BatchNorm statistics re-estimated from photos or tensors. */
import type { Options } from '../../../base/checks.js';
import { readOptions, type Fields } from '../../../base/options.js';
import {
  ESTIMATE_FIELDS,
  FOLDED_FIELDS,
  type EstimateOptions,
  type FoldedOptions,
} from './estimate-options.js';
import {
  estimateStatistics,
  measureFromTensors,
  mergeStatistics,
  type BatchNormEstimate,
} from './estimate-statistics.js';
import { PLACE_FIELDS, type PlaceOptions } from '../../../extract/replicas/place-options.js';
import type { BatchNormMoments } from './saved-moments.js';
import { readModel, type ModelSource, type OnnxModel } from '../../../run/model/open/open-model.js';
import {
  PHOTO_BATCH_FIELDS,
  type LearnSource,
  type PhotoFailure,
  type PhotoBatchOptions,
} from '../../../datasets/embed/photo-batches.js';
import { openBatches } from './open-batches.js';

/** Options of {@link estimateBatchNorm}. */
export interface EstimateBatchNormOptions extends EstimateOptions, PhotoBatchOptions {}

export const ESTIMATE_BATCH_NORM_FIELDS: Fields<EstimateBatchNormOptions> = {
  ...ESTIMATE_FIELDS,
  ...PHOTO_BATCH_FIELDS,
};

/** Options of {@link measureMoments}. */
export interface MeasureMomentsOptions extends PlaceOptions, PhotoBatchOptions {}

const MEASURE_FIELDS: Fields<MeasureMomentsOptions> = { ...PLACE_FIELDS, ...PHOTO_BATCH_FIELDS };

/** Photos that could not be read: nothing of them is in the statistics. */
export interface WithFailures {
  readonly failures: readonly PhotoFailure[];
}

/**
 * Re-estimates a model's BatchNorm statistics from data of the domain that it is used in, and writes them into a new model.
 *
 * @param model - A model, or where to open one. It does not change.
 * @param source - Photos: a folder, pattern, list or archive, as for {@link embedImages}. Or batches: an (async) iterable of tensors, or of
 * tensors by input name; leave them unchanged until the call settles.
 * @param given - See {@link EstimateBatchNormOptions}; `mode` is required.
 * @returns The new model, the statistics of each norm, the moments of all rows, and the photos that could not be read.
 * @throws {@link TapirError} `NORMS_UNAVAILABLE` if there are no norms, or if the exporter folded them and nothing is known of them;
 * `INPUT_MISMATCH`, also for a single value per channel in train mode; `BATCH_FIXED`; `SOURCE_INVALID` for a source without rows;
 * `OPTION_INVALID`; `REPLICA_FAILED`; `RUN_FAILED`; `STATE_AMBIGUOUS`; `STATE_MISMATCH`; `MOMENTS_INVALID`; those of {@link openModel}.
 *
 * @remarks Only means and variances leave the devices, except in modes `synced` and `adabn-sequential`, where the tensors between two
 * norms are held on the host (`memoryBytes`). Variances are computed around the mean, in float32, and combined in float64.
 *
 * @example
 * ```ts
 * import { estimateBatchNorm } from 'onnx-tapir/train';
 *
 * const { model, layers } = await estimateBatchNorm('resnet50.onnx', 'photos', { mode: 'synced', devices: ['cpu:0', 'cpu:1'] });
 * console.log(layers[0]?.name, layers[0]?.count); // 'bn1' 12544 per photo
 * await model.save('resnet50-adapted.onnx');
 * ```
 */
export async function estimateBatchNorm(
  model: OnnxModel | ModelSource,
  source: LearnSource,
  given: Options<EstimateBatchNormOptions>,
): Promise<BatchNormEstimate & WithFailures> {
  const options = readOptions(ESTIMATE_BATCH_NORM_FIELDS, given, 'estimateBatchNorm');
  const opened = readModel(model);
  const { batches, failures } = await openBatches(opened, source, options, options.signal);
  return { ...(await estimateStatistics(opened, batches, options)), failures };
}

/**
 * Measures the moments of what norms read and of what layers with folded norms give, under the model's statistics. Moments of the
 * source data make it possible to adapt a folded model without its state dict (`sourceMoments` of {@link estimateBatchNorm}).
 *
 * @param model - A model, or where to open one.
 * @param source - Photos or batches, as for {@link estimateBatchNorm}.
 * @param given - See {@link MeasureMomentsOptions}.
 * @returns Plain data, to be kept as JSON, and the photos that could not be read.
 * @throws {@link TapirError} as {@link estimateBatchNorm}.
 *
 * @example
 * ```ts
 * import { estimateBatchNorm, measureMoments } from 'onnx-tapir/train';
 *
 * const { moments } = await measureMoments('folded.onnx', 'training-photos');
 * const { model } = await estimateBatchNorm('folded.onnx', 'photos', { mode: 'adabn', sourceMoments: moments });
 * await model.save('adapted.onnx');
 * ```
 */
export async function measureMoments(
  model: OnnxModel | ModelSource,
  source: LearnSource,
  given: Options<MeasureMomentsOptions> = {},
): Promise<{ readonly moments: BatchNormMoments } & WithFailures> {
  const options = readOptions(MEASURE_FIELDS, given, 'measureMoments');
  const opened = readModel(model);
  const { batches, failures } = await openBatches(opened, source, options, options.signal);
  return { moments: await measureFromTensors(opened, batches, options), failures };
}

/**
 * Merges the moments that several processes have measured on parts of the data, and writes the statistics into a new model.
 *
 * @param model - The model that all of them had.
 * @param moments - `moments` of each process. Modes `adabn` and `precise` add up exactly; the others are refused.
 * @param given - For a folded file, the same as in each process; see {@link FoldedOptions}.
 * @returns As {@link estimateBatchNorm}; its moments can be merged again.
 * @throws {@link TapirError} `MOMENTS_INVALID`; those of {@link estimateBatchNorm}.
 *
 * @example
 * ```ts
 * import { estimateBatchNorm, mergeBatchNorm } from 'onnx-tapir/train';
 *
 * const parts = ['photos/a', 'photos/b'].map((folder) => estimateBatchNorm('resnet50.onnx', folder, { mode: 'adabn' }));
 * const moments = (await Promise.all(parts)).map((part) => part.moments);
 * const { model } = await mergeBatchNorm('resnet50.onnx', moments);
 * await model.save('resnet50-adapted.onnx');
 * ```
 */
export async function mergeBatchNorm(
  model: OnnxModel | ModelSource,
  moments: readonly BatchNormMoments[],
  given: Options<FoldedOptions> = {},
): Promise<BatchNormEstimate> {
  return mergeStatistics(readModel(model), moments, readOptions(FOLDED_FIELDS, given, 'mergeBatchNorm'));
}
