/** The QDQ form of a choice. */
import { planReads } from '../../graph/quantize/plan-reads.js';
import { roundBias } from '../../graph/quantize/roundings.js';
import { withQdq, type RoundedLayer, type Rounding, type Unit } from '../../graph/quantize/with-qdq.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import { readConstant } from './layer-constants.js';
import type { StaticSubject } from './static-subject.js';

/** A unit that is computed in 8 bits. */
export interface ChosenUnit extends Unit {
  /** What is taken from the bias of its layer. */
  readonly correction: Float32Array | undefined;
}

/** A choice as a model, and its layers. */
export interface Qdq {
  readonly rewrite: Rewrite;
  readonly layers: readonly RoundedLayer[];
}

/** Makes it. Biases get the scales of their layer's products. */
export async function makeQdq(
  { state, rewrite, moving }: StaticSubject,
  chosen: readonly ChosenUnit[],
  roundings: ReadonlyMap<string, Rounding>,
): Promise<Qdq> {
  const layers: RoundedLayer[] = [];
  for (const { rounded, correction } of chosen) {
    if (!rounded) continue;
    const { layer, weights } = rounded;
    const { scale } = roundings.get(layer.tensor)!;
    // oxlint-disable-next-line no-await-in-loop -- one bias at a time
    const bias = layer.bias && (await readConstant(state, layer.bias)).data;
    const corrected = bias?.map((x, channel) => x - (correction?.[channel] ?? 0));
    layers.push({ layer, weights, bias: corrected && roundBias(corrected, scale, weights.scales) });
  }
  const reads = chosen.flatMap((unit) => unit.reads);
  const read = new Set(reads.map(({ tensor }) => tensor));
  const own = new Map([...roundings].filter(([tensor]) => read.has(tensor)));
  const planned = planReads(rewrite, reads, own, moving);
  return { rewrite: withQdq(rewrite, { layers, ...planned }), layers };
}
