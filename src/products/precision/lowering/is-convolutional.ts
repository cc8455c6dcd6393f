/** What a model computes most. */
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { NO_SIZES } from '../../../run/model/open/input-sizes.js';
import { measureCosts } from '../../../run/model/oracle/model-costs.js';
import { prunedInternals, type PrunedModel } from '../../../run/model/prune/pruned-model.js';

const CONVOLUTIONS: ReadonlySet<string> = new Set(['Conv', 'ConvTranspose', 'FusedConv', 'DeformConv']);

/** Whether convolutions are at least half of the multiply-accumulates that the outputs of a model need, for images of this height. */
export async function isConvolutional(
  model: OnnxModel | PrunedModel,
  side: number | undefined,
): Promise<boolean> {
  const pruned = prunedInternals.has(model) ? prunedInternals.of(model) : undefined;
  const whole = prunedInternals.has(model) ? model.source : model;
  const at = { batch: undefined, inputSizes: { ...NO_SIZES, side } };
  const { nodes } = await measureCosts(whole, at);
  let [convolutions, products] = [0, 0];
  for (const [node, { macs = 0 }] of nodes) {
    if (pruned && !pruned.rewrite.cut.nodes.has(node)) continue;
    if (CONVOLUTIONS.has(node.opType)) convolutions += macs;
    else products += macs;
  }
  return convolutions >= products;
}
