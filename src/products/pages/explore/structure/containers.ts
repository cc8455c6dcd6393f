/** The modules that hold each node: the boxes of the picture. */
import type { Graph, Node, Value } from '../../../../onnx/graph/graph.js';
import { readModulePath } from '../../../../onnx/graph/names/module-names.js';
import type { ModuleTree } from '../../../../onnx/graph/names/module.js';
import { moduleTree } from '../../../../onnx/graph/names/module-tree.js';
import { nodeRoles } from '../../../../onnx/graph/roles.js';

/** The paths of the modules around each node, from the outermost one. Nodes are in execution order; `names` are those of nameValues. */
export function containersOf(graph: Graph, names: ReadonlyMap<Value, string>): string[][] {
  const tree = moduleTree(graph);
  const isModule = moduleTest(graph, tree);
  const chains = graph.nodes.map((node) => chainOf(containerOf(tree, names, node)).filter(isModule));
  const dissolved = interrupted(graph, chains);
  return chains.map((chain) => chain.filter((path) => !dissolved.has(path)));
}

/** The innermost module of a node. A layer of one node is that node; a layer of several is a box. */
function containerOf(tree: ModuleTree, names: ReadonlyMap<Value, string>, node: Node): string {
  const place = tree.places.get(node)?.path ?? '';
  const name = node.outputs.flatMap((value) => (value && names.get(value)) ?? [])[0];
  const module = tree.modules.get(place);
  const isBox =
    module !== undefined && (module.children.size > 0 || module.calls.some((call) => call.length > 1));
  if (name === undefined || name === place || !/^[^:/]+\./.test(name)) return isBox ? place : parentOf(place);
  return parentOf(name);
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('.')));
}

/** `layer1.0` → `layer1`, `layer1.0`. */
function chainOf(path: string): string[] {
  const atoms = path.split('.');
  return path === '' ? [] : atoms.map((_, i) => atoms.slice(0, i + 1).join('.'));
}

function moduleTest(graph: Graph, tree: ModuleTree): (path: string) => boolean {
  const known = new Map<string, boolean>();
  return (path) => {
    let isModule = known.get(path);
    if (isModule === undefined)
      known.set(
        path,
        (isModule = tree.modules.has(path) || readModulePath(graph, path, false) !== undefined),
      );
    return isModule;
  };
}

/**
 * Modules that data leaves and enters again: a ModuleList whose parts other modules connect, such as the encoder of a U-Net. As one box
 * they would hide the path, so their parts stand by themselves.
 */
function interrupted(graph: Graph, chains: readonly (readonly string[])[]): Set<string> {
  const roles = nodeRoles(graph);
  const members = new Map<string, number[]>();
  graph.nodes.forEach((node, i) => {
    if (roles.get(node) !== 'data') return;
    for (const path of chains[i]!) {
      const list = members.get(path);
      if (list) list.push(i);
      else members.set(path, [i]);
    }
  });
  const isData = (node: Node): boolean => roles.get(node) === 'data';
  return new Set([...members].flatMap(([path, nodes]) => (reenters(graph, nodes, isData) ? [path] : [])));
}

/** Whether a path of nodes with data leaves a set and comes back. The members are in execution order. */
function reenters(graph: Graph, members: readonly number[], isData: (node: Node) => boolean): boolean {
  const [first, last] = [members[0]!, members.at(-1)!];
  if (last - first + 1 === members.length) return false;
  const inside = new Set(members);
  const behind = new Set<Node>();
  for (let i = first; i <= last; i++) {
    const node = graph.nodes[i]!;
    // Sizes that a module computes of its input, and reads again, are no way out of it.
    if (!isData(node)) continue;
    const producers = node.reads.flatMap((value) => value.producer ?? []);
    const isBehind = producers.some((producer) => behind.has(producer));
    if (inside.has(i)) {
      if (isBehind) return true;
    } else if (isBehind || producers.some((producer) => inside.has(producer.index))) behind.add(node);
  }
  return false;
}
