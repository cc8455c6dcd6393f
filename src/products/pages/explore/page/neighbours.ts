/** What an id reads, and what reads it. This file uses no part of the browser. */
import type { Id, ModelGraph } from './graph.js';

/** The data that an id reads, what reads it, and the further outputs of a node. */
export function neighboursOf(graph: ModelGraph, id: Id): Readonly<Record<string, readonly Id[]>> {
  const { nodes, values } = graph.model;
  const further = graph.furtherPlace(id);
  if (further) {
    const users = nodes.flatMap(({ reads }, i) =>
      reads.some(([source, output]) => source === further[0] && output === further[1]) ? [i] : [],
    );
    return { 'comes from': further[0] < 0 ? [] : [further[0]], 'is read by': users };
  }
  const inside = new Set(graph.nodesIn(id));
  const isData = (node: number): boolean => node < 0 || nodes[node]!.role === 'data';
  const reads = [...inside]
    .flatMap((node) => nodes[node]!.reads)
    .filter(([source]) => !inside.has(source) && isData(source));
  const users = [...inside].flatMap((node) => graph.usersOf(node)).filter((user) => !inside.has(user));
  const others = graph.isNode(id) ? values.filter(([source]) => source === id) : [];
  return {
    reads: [...new Set(reads.map((place) => graph.idAt(place)))],
    'is read by': [...new Set(users.filter(isData))],
    'also gives': others.map((place) => graph.idAt(place)),
  };
}
