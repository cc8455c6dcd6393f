/** The nodes of a module, as a stage of its own. Pure. */
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import type { CutLine } from '../../../onnx/graph/cost/cut-line.js';
import { isUnder } from '../../../onnx/graph/module-path.js';
import { moduleTree } from '../../../onnx/graph/names/module-tree.js';
import { resolveNames } from '../../../onnx/graph/names/resolve-names.js';
import { impossible, type ModuleNodes } from './stages.js';

/**
 * Finds the nodes of a module that depend on an input, and those between them: exporters add nodes that name no module.
 *
 * @throws {@link TapirError} `NAME_NOT_FOUND` and its kind for a name that is none; `SPLIT_IMPOSSIBLE` where the file does not show the nodes.
 */
export function nodesOfModule(graph: Graph, { nodes }: CutLine, name: string): ModuleNodes {
  const { places } = moduleTree(graph);
  const path = name.replace(/^module:/, '');
  const own = new Set(nodes.filter((node) => isUnder(places.get(node)?.path ?? '', path)));
  if (own.size > 0) return { name, nodes: withBetween(nodes, own) };
  resolveNames(graph, [name]);
  throw impossible(
    `the file does not show which nodes belong to module "${name}"; say where stages end instead, with "until"`,
  );
}

/** Adds the nodes on the ways from one of some nodes to another. */
function withBetween(line: readonly Node[], own: ReadonlySet<Node>): Set<Node> {
  const behind = new Set<Value>();
  const reached = new Set<Node>();
  for (const node of line) {
    if (!own.has(node) && !node.reads.some((value) => behind.has(value))) continue;
    reached.add(node);
    for (const output of node.outputs) if (output) behind.add(output);
  }
  const read = new Set<Value>();
  const between = new Set<Node>();
  for (const node of line.toReversed()) {
    if (!reached.has(node)) continue;
    if (!own.has(node) && !node.outputs.some((output) => output && read.has(output))) continue;
    between.add(node);
    for (const value of node.reads) read.add(value);
  }
  return between;
}
