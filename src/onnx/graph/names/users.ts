/** What reads a value. */
import type { Node } from '../graph.js';

/** The nodes that read a node's value. What the network itself rounds passes through an Identity. */
export function usersOf(node: Node, hops = 0): readonly Node[] {
  const users = node.outputs.flatMap((output) => output?.uses ?? []);
  if (hops === MAX_HOPS) return users;
  return users.flatMap((user) => (user.opType === 'Identity' ? usersOf(user, hops + 1) : [user]));
}

const MAX_HOPS = 4;
