/** What the bodies of control-flow nodes read from the graph around them, and the names they define. */
import { operatorKey, type BodyPlace, type ScannedBodies } from '../file/scan/scan-body.js';
import type { ScannedNode } from '../file/scan/scan-graph.js';
import type { Graph, Node } from './graph.js';

/** The names that a node reads, each once: its inputs, then what its bodies capture. */
export function namesRead({ inputs, bodies }: ScannedNode): readonly string[] {
  if (!bodies && inputs.every((name, i) => name !== '' && i < FEW && inputs.indexOf(name) === i))
    return inputs;
  const names = new Set(inputs);
  for (const name of bodies?.captures ?? []) names.add(name);
  names.delete('');
  return [...names];
}

/** Short lists are searched, which is faster than making a set. */
const FEW = 8;

/** Adds the tensor names that a node's bodies define, at any depth. */
export function addNamesInside({ bodies }: ScannedNode, into: Set<string>): void {
  for (const name of bodies?.tensors.keys() ?? []) into.add(name);
}

/** Where bodies define a tensor or node: `then_branch of If "x"`; "" for the function itself; undefined if nowhere. */
export function findInside({ tensors, nodes }: ScannedBodies, name: string): string | undefined {
  const places = tensors.has(name) ? tensors : nodes;
  return places.has(name) ? describePlace(places.get(name)) : undefined;
}

function describePlace(place: BodyPlace | undefined): string {
  const parts: string[] = [];
  for (let at = place; at; at = at.parent)
    parts.push(`${at.attribute} of ${at.opType} ${JSON.stringify(at.node)}`);
  return parts.join(', in ');
}

/** What runs inside some nodes, each once: their bodies, and the functions that they or their bodies call. */
export function contentsOf({ functions }: Graph, nodes: Iterable<Node>): Set<ScannedBodies> {
  const found = new Set<ScannedBodies>();
  const add = (content: ScannedBodies | undefined): void => void (content && found.add(content));
  for (const node of nodes) {
    add(node.scanned.bodies);
    if (functions.size > 0) add(functions.get(operatorKey(node))?.content);
  }
  // Those that are added meanwhile get their turn.
  if (functions.size > 0)
    for (const { operators } of found) for (const key of operators.keys()) add(functions.get(key)?.content);
  return found;
}
