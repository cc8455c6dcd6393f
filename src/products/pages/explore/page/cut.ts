/** The cut that some values need. This file uses no part of the browser. */
import type { ModelMeasure, ModelStructure } from '../structure/model-structure.js';

/** The part of a model that stays. */
export interface Kept {
  readonly nodes: ReadonlySet<number>;
  /** The inputs that it needs, as in {@link ValuePlace}. */
  readonly inputs: ReadonlySet<number>;
  readonly weights: ReadonlySet<number>;
  readonly elements: number;
  readonly weightBytes: number;
  readonly macs: number;
}

/** Walks backwards from some sources of values, as the package does when it cuts. */
export function keepFor(
  { nodes, weights }: ModelStructure,
  wanted: readonly number[],
  measure: ModelMeasure | undefined,
): Kept {
  const kept = new Set<number>();
  const inputs = new Set<number>();
  const keptWeights = new Set<number>();
  const open = [...wanted];
  for (let index = open.pop(); index !== undefined; index = open.pop()) {
    if (index < 0) inputs.add(index);
    if (index < 0 || kept.has(index)) continue;
    kept.add(index);
    const node = nodes[index]!;
    for (const weight of node.weights) keptWeights.add(weight);
    for (const [source] of node.reads) open.push(source);
  }
  const total = (place: 0 | 1): number =>
    [...keptWeights].reduce((sum, weight) => sum + weights[weight]![place], 0);
  return {
    nodes: kept,
    inputs,
    weights: keptWeights,
    elements: total(0),
    weightBytes: total(1),
    macs: [...kept].reduce((sum, node) => sum + (measure?.macs[node] ?? 0), 0),
  };
}
