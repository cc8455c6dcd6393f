/** What detectors have in common: raw outputs of dense heads, and norms whose epsilon no weights prove. */
import { TapirError } from '../../base/errors.js';
import type { ArchitectureSizes, NetworkOutput } from './architecture.js';
import type { NormOptions } from './layers.js';
import type { Module } from './module.js';
import type { Value } from './network.js';

/** The classes of COCO, counted by their numbers, and the background. */
export const COCO_CLASSES = 91;

/** A feature map as an output. */
export function mapOutput(key: string, { name: tensor, channels }: Value): NetworkOutput {
  return { key, tensor, dims: ['batch', channels, null, null] };
}

/** What a head gives for the maps of all levels, as rows: `[batch, places of all levels · anchors, columns]`. */
export function rowsOutput(
  key: string,
  head: Module,
  maps: readonly Value[],
  columns: number,
): NetworkOutput {
  const rows = maps.map(({ name, channels }) => {
    const apart = head.node('Reshape', [name, head.constant([0, channels / columns, columns, -1])]);
    const last = head.node('Transpose', [apart], { perm: [0, 3, 1, 2] });
    return head.node('Reshape', [last, head.constant([0, -1, columns])]);
  });
  return { key, tensor: head.node('Concat', rows, { axis: 1 }), dims: ['batch', null, columns] };
}

/** What is known of the frozen norms of a detector. */
export interface FrozenNorms {
  /** Key of the classifier's bias, and how many classes torchvision's own weights have. */
  readonly proof?: { readonly key: string; readonly rows: number };
}

/**
 * The norms of a backbone that is frozen where its weights count no batches. They do not tell the epsilon: torchvision sets 0 after loading its own weights of
 * some networks. Throws `STATE_AMBIGUOUS`.
 *
 * @param norm - A norm of the backbone.
 */
export function normOf(
  name: string,
  norm: string,
  { weights, normEps }: ArchitectureSizes,
  { proof }: FrozenNorms,
): NormOptions {
  const isFrozen = weights !== undefined && !weights.has(`${norm}.num_batches_tracked`);
  if (!isFrozen) return { epsilon: 1e-5 };
  if (normEps !== undefined || !proof) return { epsilon: normEps ?? 1e-5, isFrozen };
  if (weights.get(proof.key)?.dims[0] === proof.rows) return { epsilon: 0, isFrozen };
  throw new TapirError(
    'STATE_AMBIGUOUS',
    `the weights do not show the epsilon of the frozen norms of ${name}; state it (option normEps, --set normEps=…): 1e-5 for a network that was trained from a backbone's weights, 0 for one that was trained from torchvision's COCO_V1`,
    { details: { key: `${norm}.running_var`, candidates: ['0', '1e-5'] } },
  );
}
