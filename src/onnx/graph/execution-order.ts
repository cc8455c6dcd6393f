/** The order in which nodes run. */
import type { ScannedNode } from '../file/scan/scan-graph.js';
import { namesRead } from './scopes.js';

/** Nodes in an order in which each comes after those it reads from. A sorted file, as ONNX requires, keeps its order. */
export function executionOrder(nodes: readonly ScannedNode[]): readonly ScannedNode[] {
  const producers = new Map<string, number>();
  for (const [i, node] of nodes.entries()) for (const name of node.outputs) producers.set(name, i);
  const isSorted = nodes.every((node, i) => namesRead(node).every((name) => (producers.get(name) ?? i) <= i));
  if (isSorted) return nodes;
  const reads = nodes.map((node, i) =>
    namesRead(node).flatMap((name) => {
      const producer = producers.get(name);
      return producer === undefined || producer === i ? [] : [producer];
    }),
  );
  const done = new Set<number>();
  const open = new Set<number>();
  const order: ScannedNode[] = [];
  // Depth first, without recursion. Nodes in a circle keep file order; they are refused when something needs them.
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

/** Whether some nodes of a file are in file order. */
export function isSortedOrder(file: readonly ScannedNode[], order: readonly ScannedNode[]): boolean {
  const places = new Map(file.map((node, i) => [node, i]));
  return order.every((node, i) => i === 0 || places.get(order[i - 1]!)! < places.get(node)!);
}
