/** What the bodies of control-flow nodes read from the graph around them. */
import type { ScannedGraph, ScannedNode } from '../onnx/scan-graph.js';

/**
 * The names that a node reads: its inputs, then what its bodies capture from outside, each once, without "".
 * Bodies see the names around them unless they define the same name: as input, initializer or node output.
 */
export function namesRead(node: ScannedNode): string[] {
  const names = new Set(node.inputs);
  for (const body of node.bodies) addCaptures(body.graph, names);
  names.delete('');
  return [...names];
}

/** Adds the free names of a body: read inside it, or given out by it, but not defined in it. */
function addCaptures(graph: ScannedGraph, into: Set<string>): void {
  const defined = new Set<string>();
  for (const input of graph.inputs) defined.add(input.name);
  for (const initializer of graph.initializers) defined.add(initializer.name);
  for (const node of graph.nodes) for (const output of node.outputs) defined.add(output);
  const read = new Set<string>();
  for (const node of graph.nodes) {
    for (const input of node.inputs) read.add(input);
    for (const body of node.bodies) addCaptures(body.graph, read);
  }
  for (const output of graph.outputs) read.add(output.name);
  for (const name of read) if (!defined.has(name)) into.add(name);
}

/** The tensor names that bodies define, at any depth: taken, for names that a rewrite adds. */
export function namesInside(node: ScannedNode, into: Set<string> = new Set()): Set<string> {
  for (const { graph } of node.bodies) {
    for (const input of graph.inputs) into.add(input.name);
    for (const initializer of graph.initializers) into.add(initializer.name);
    for (const inner of graph.nodes) {
      for (const output of inner.outputs) into.add(output);
      namesInside(inner, into);
    }
  }
  return into;
}

/** Where a tensor or node name stands inside a body: `then_branch of If "x"`, or undefined. */
export function findInside(nodes: readonly ScannedNode[], name: string): string | undefined {
  for (const node of nodes) {
    for (const { attribute, graph } of node.bodies) {
      const place = `${attribute} of ${node.opType} ${JSON.stringify(node.name || (node.outputs[0] ?? ''))}`;
      const here = graph.nodes.some((inner) => inner.name === name || inner.outputs.includes(name));
      if (here || graph.inputs.some((input) => input.name === name)) return place;
      const deeper = findInside(graph.nodes, name);
      if (deeper !== undefined) return `${deeper}, in ${place}`;
    }
  }
  return undefined;
}
