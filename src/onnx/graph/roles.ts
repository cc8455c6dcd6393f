/** What a node's result depends on: this tells feature maps from shape arithmetic and constants. */
import { oncePer } from '../../base/once-per.js';
import type { Graph, Node, Value } from './graph.js';
import { operatorOf } from './operators/operators.js';

/** `data` depends on the content of a graph input, `shape` only on sizes, `constant` on neither. */
export type Role = 'data' | 'shape' | 'constant';

/** The role of every node. */
export const nodeRoles: (graph: Graph) => ReadonlyMap<Node, Role> = oncePer(findRoles);

/** Iterative and linear; nodes may come in any order. */
function findRoles(graph: Graph): ReadonlyMap<Node, Role> {
  const roles = new Map<Node, Role>();
  const roleOf = (value: Value): Role => {
    if (value.producer) return roles.get(value.producer) ?? 'constant';
    return value.input && !value.initializer ? 'data' : 'constant';
  };
  // Raise roles until nothing changes; a graph without circles needs one sweep and no revisits.
  const queue: Node[] = [...graph.nodes];
  const waiting = new Set<Node>();
  for (const node of queue) {
    waiting.delete(node);
    let role: Role = 'constant';
    for (const read of node.reads) {
      const from = roleOf(read);
      if (from === 'data' || role === 'constant') role = from;
      if (role === 'data') break;
    }
    if (role === 'data' && operatorOf(node)?.readsOnlySizes) role = 'shape';
    const before = roles.get(node);
    if (before === role) continue;
    roles.set(node, role);
    if (before === undefined && role === 'constant') continue;
    for (const output of node.outputs) {
      for (const user of output?.uses ?? []) {
        if (!roles.has(user) || waiting.has(user)) continue;
        waiting.add(user);
        queue.push(user);
      }
    }
  }
  return roles;
}
