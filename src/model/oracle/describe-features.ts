/** Describes features by name. An oracle supplies types that the file does not state. */
import type { FeatureInfo } from '../prune/feature-info.js';
import { listFeatures } from '../prune/list-features.js';
import { readModel, type ModelSource, type OnnxModel } from '../open/open-model.js';
import { ModelOracle } from './model-oracle.js';

/**
 * Describes values by name without running the model: dtype, dims and layout, and the channels and reduction of timm's feature
 * info. Asks ONNX Runtime for types that the file does not state.
 *
 * @param model - A model, or where to open one.
 * @param names - Names as for {@link createFeatureExtractor}; by default all of {@link getGraphNodeNames}.
 * @returns One entry per name, in that order.
 * @throws {@link TapirError} those of name resolution and of {@link openModel}; `SESSION_FAILED` if ONNX Runtime refuses the model.
 *
 * @example The stages of a ResNet-50, as a feature pyramid needs them.
 * ```ts
 * import { describeFeatures } from 'onnx-tapir';
 *
 * const stages = await describeFeatures('resnet50.onnx', ['layer1', 'layer2', 'layer3', 'layer4']);
 * console.log(stages.map(({ channels, reduction }) => [channels, reduction])); // [[256, 4], [512, 8], [1024, 16], [2048, 32]]
 * ```
 */
export async function describeFeatures(
  model: OnnxModel | ModelSource,
  names?: readonly string[],
): Promise<FeatureInfo[]> {
  const opened = readModel(model);
  await using oracle = new ModelOracle(opened);
  return await listFeatures(opened, names, oracle);
}
