/** Groups of near-duplicates from the tree that connects all points. This file uses no part of the browser. */

/** Groups of two or more points that edges up to a distance connect. The largest group comes first; members are in order. */
export function groupsWithin(
  forest: Uint16Array,
  distances: Float32Array,
  points: number,
  limit: number,
): number[][] {
  const parent = Uint16Array.from({ length: points }, (_, i) => i);
  const rootOf = (point: number): number => {
    let root = point;
    while (parent[root] !== root) root = parent[root] = parent[parent[root]!]!;
    return root;
  };
  for (let edge = 0; edge < distances.length && distances[edge]! <= limit; edge++) {
    const [a, b] = [rootOf(forest[edge * 2]!), rootOf(forest[edge * 2 + 1]!)];
    parent[Math.max(a, b)] = Math.min(a, b);
  }
  const groups = new Map<number, number[]>();
  for (let point = 0; point < points; point++) {
    const root = rootOf(point);
    const group = groups.get(root);
    if (group) group.push(point);
    else groups.set(root, [point]);
  }
  return [...groups.values()]
    .filter((group) => group.length > 1)
    .toSorted((a, b) => b.length - a.length || a[0]! - b[0]!);
}
