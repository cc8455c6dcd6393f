/** A classifier of a node's vectors inside the model: probes, and weights from elsewhere. */
import type { Options } from '../base/checks.js';
import {
  withClassifierHead,
  withNeighbourHead,
  type NeighbourHead,
} from '../onnx/graph/rewrite/classifier-head.js';
import type { LinearHead } from '../onnx/graph/rewrite/linear-head.js';
import type { PruneOptions } from '../run/model/oracle/prune-model.js';
import type { OnnxModel } from '../run/model/open/open-model.js';
import { withClassLabels } from './class-labels.js';
import { withHeads, type HeadedNode } from './with-heads.js';

/** What a classifier computes: a linear layer, with or without softmax, or a vote of the nearest vectors. */
export type ClassifierKind =
  (LinearHead & { readonly softmax: boolean }) | Omit<NeighbourHead, 'classes' | 'l2Normalize'>;

/** A classifier, and where it stands. */
export interface PlacedClassifier extends Pick<HeadedNode, 'node' | 'key' | 'pool'> {
  readonly head: ClassifierKind;
  /** Divide each vector by its Euclidean norm first. */
  readonly l2Normalize: boolean;
  /** Labels of the classes, in order, for the metadata of the file. */
  readonly labels: readonly string[] | undefined;
}

/**
 * Puts a classifier on a node: the model gives its result only.
 *
 * @param options - How the node's result is taken, as in {@link PruneOptions}.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for another number of features; those of {@link pruneModel}.
 */
export async function withClassifier(
  model: OnnxModel,
  { head, l2Normalize, labels, ...place }: PlacedClassifier,
  options: Options<Omit<PruneOptions, 'pool'>> = {},
): Promise<OnnxModel> {
  const attach: HeadedNode['attach'] = (...at) =>
    'vectors' in head
      ? withNeighbourHead(...at, { ...head, classes: labels?.length ?? 0, l2Normalize })
      : withClassifierHead(...at, { ...head, l2Normalize });
  const headed = await withHeads(model, [{ ...place, attach }], options);
  return labels ? withClassLabels(headed, labels) : headed;
}
