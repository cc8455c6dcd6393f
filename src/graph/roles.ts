/** What a node's result depends on: telling feature maps from shape arithmetic and constants. */
import type { Graph, Node, Value } from './graph.js';

/** `data` depends on the content of a graph input, `shape` only on sizes, `constant` on neither. */
export type Role = 'data' | 'shape' | 'constant';

const READS_ONLY_SIZES = new Set(['Shape', 'Size']);

/** The role of every node. Iterative, linear; nodes may stand in any order. */
export function nodeRoles(graph: Graph): ReadonlyMap<Node, Role> {
  const roles = new Map<Node, Role>();
  const roleOf = (value: Value): Role => {
    if (value.producer) return roles.get(value.producer) ?? 'constant';
    return value.input && !value.initializer ? 'data' : 'constant';
  };
  // Raise roles until nothing changes; a sorted file needs one sweep and no revisits.
  const queue: Node[] = [...graph.nodes];
  for (const node of queue) {
    const seen = new Set(node.reads.map(roleOf));
    let role: Role = seen.has('data') ? 'data' : seen.has('shape') ? 'shape' : 'constant';
    if (role === 'data' && READS_ONLY_SIZES.has(node.opType)) role = 'shape';
    const before = roles.get(node);
    if (before === role) continue;
    roles.set(node, role);
    if (before === undefined && role === 'constant') continue;
    for (const output of node.outputs) {
      for (const user of output?.uses ?? []) if (roles.has(user)) queue.push(user);
    }
  }
  return roles;
}
