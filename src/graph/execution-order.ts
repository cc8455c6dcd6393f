/** The order in which nodes run. */
import type { ScannedNode } from '../onnx/scan-graph.js';

/** Nodes so that each stands behind those it reads from; a sorted file, as ONNX asks for, stays as it is. */
export function executionOrder(
  nodes: readonly ScannedNode[],
  namesOf: ReadonlyMap<ScannedNode, readonly string[]>,
): readonly ScannedNode[] {
  const producers = new Map(
    nodes.flatMap((node, i) => node.outputs.map((name): [string, number] => [name, i])),
  );
  const reads = nodes.map((node, i) =>
    namesOf.get(node)!.flatMap((name) => {
      const producer = producers.get(name);
      return producer === undefined || producer === i ? [] : [producer];
    }),
  );
  if (reads.every((from, i) => from.every((producer) => producer < i))) return nodes;
  const done = new Set<number>();
  const open = new Set<number>();
  const order: ScannedNode[] = [];
  // Depth first, without recursion; nodes in a circle come in file order, and are refused when they are needed.
  for (let start = 0; start < nodes.length; start++) {
    const stack = [start];
    for (let at = stack.at(-1); at !== undefined; at = stack.at(-1)) {
      const next =
        open.has(at) || done.has(at)
          ? undefined
          : reads[at]!.filter((from) => !done.has(from) && !open.has(from));
      open.add(at);
      if (next && next.length > 0) {
        for (const from of next) stack.push(from);
        continue;
      }
      stack.pop();
      if (!done.has(at)) order.push(nodes[at]!);
      done.add(at);
    }
  }
  return order;
}

/** Whether nodes of a file, in another order, stand in the file's own. */
export function isSortedOrder(file: readonly ScannedNode[], order: readonly ScannedNode[]): boolean {
  const places = new Map(file.map((node, i) => [node, i]));
  return order.every((node, i) => i === 0 || places.get(order[i - 1]!)! < places.get(node)!);
}
