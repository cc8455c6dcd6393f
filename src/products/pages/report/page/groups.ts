/** Groups of near-duplicates from the tree that connects all points. This file uses no part of the browser. */
import { RowGroups } from '../../../../onnx/tensor/vectors/row-groups.js';

/** Groups of two or more points that edges up to a distance connect. The largest group comes first; members are in order. */
export function groupsWithin(
  forest: Uint16Array,
  distances: Float32Array,
  points: number,
  limit: number,
): number[][] {
  const groups = new RowGroups(points);
  for (let edge = 0; edge < distances.length && distances[edge]! <= limit; edge++)
    groups.join(forest[edge * 2]!, forest[edge * 2 + 1]!);
  return groups.list().toSorted((a, b) => b.length - a.length || a[0]! - b[0]!);
}
