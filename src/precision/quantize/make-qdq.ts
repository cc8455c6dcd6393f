/** The QDQ form of a choice. */
import { planReads } from '../../graph/quantize/plan-reads.js';
import { withQdq, type RoundedLayer, type Unit } from '../../graph/quantize/with-qdq.js';
import type { Rounding } from '../../graph/quantize/roundings.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
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

/** Makes it. */
export function makeQdq(
  { rewrite, moving }: StaticSubject,
  chosen: readonly ChosenUnit[],
  roundings: ReadonlyMap<string, Rounding>,
): Qdq {
  const layers = chosen.flatMap(({ rounded, correction }): RoundedLayer[] => {
    if (!rounded) return [];
    const bias = rounded.bias?.map((x, channel) => x - (correction?.[channel] ?? 0));
    return [{ layer: rounded.layer, weights: rounded.weights, bias }];
  });
  const reads = chosen.flatMap((unit) => unit.reads);
  const read = new Set(reads.map(({ tensor }) => tensor));
  const own = new Map([...roundings].filter(([tensor]) => read.has(tensor)));
  const planned = planReads(rewrite, reads, own, moving);
  return { rewrite: withQdq(rewrite, { layers, ...planned }), layers };
}
