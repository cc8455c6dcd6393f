/** The names that a model offers, as torchvision's get_graph_node_names lists them. */
import { batchNormNames } from './batch-norm.js';
import type { Graph, Node, Value } from '../graph.js';
import { layerNames } from './keras-names.js';
import { nodeRoles } from '../roles.js';
import { joinPath } from './module-path.js';
import { moduleTree, type ModuleTree } from './module-tree.js';
import { isSharedName, resolveName } from './resolve-names.js';
import { ordinalNames } from './ordinal-names.js';
import { callsOfOperation, OPERATIONS } from './operations.js';

/**
 * Names a user may ask for, in execution order: torchvision's spelling where the file carries module paths, else node
 * names, else tensor names. Each resolves to a value of its own.
 */
export function listNames(graph: Graph): string[] {
  return [...nameValues(graph).values()];
}

/** The best name of each value that depends on the input, in execution order. */
export function nameValues(graph: Graph): ReadonlyMap<Value, string> {
  const tree = moduleTree(graph);
  const roles = nodeRoles(graph);
  const spellings = moduleSpellings(tree);
  const known = knownNames(graph);
  const layers = layerNames(graph);
  const names = new Map<Value, string>(graph.inputs.map((value) => [value, value.name]));
  for (const node of graph.nodes) {
    if (roles.get(node) !== 'data' || isInner(tree, node)) continue;
    node.outputs.forEach((value, k) => {
      if (!value || (k > 0 && value.uses.length === 0 && !graph.isOutput(value))) return;
      const candidates = [
        ...(known.get(value.name) ?? []),
        ...(spellings.get(node) ?? []),
        ...(layers.has(node) ? [layers.get(node)!] : []),
        // The bare name can only mean the first output, or the only one that is used; trying it for all would be quadratic.
        ...(k < 4 && !isSharedName(graph, node.name) ? [node.name] : []),
        `${node.name}:${k}`,
        value.name,
        `tensor:${value.name}`,
      ];
      const name = candidates.find((candidate) => denotes(graph, candidate, value));
      if (name !== undefined) names.set(value, name);
    });
  }
  return names;
}

/** Names by tensor: of the file beside the model, or by the order of operators. */
function knownNames(graph: Graph): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, string[]>();
  const add = (tensor: string, name: string): void => {
    const others = names.get(tensor);
    if (others) others.push(name);
    else names.set(tensor, [name]);
  };
  for (const [name, tensor] of graph.sidecar?.names ?? []) add(tensor, name);
  if (moduleTree(graph).scheme === undefined)
    for (const [name, value] of ordinalNames(graph)?.values ?? []) add(value.name, name);
  return names;
}

function denotes(graph: Graph, name: string, value: Value): boolean {
  const found = name === '' ? undefined : resolveName(graph, name);
  return found !== undefined && 'value' in found && found.value === value;
}

/** A node inside a leaf module whose result is another node's: torchvision shows such a module as one. */
function isInner(tree: ModuleTree, node: Node): boolean {
  const path = tree.places.get(node)?.path;
  const module = path === undefined || path === '' ? undefined : tree.modules.get(path);
  if (!module || module.children.size > 0) return false;
  return !module.calls.some((call) => call.at(-1) === node);
}

/** Names to try per node: torchvision's, the true path, that of a folded BatchNorm, then operations by their place. */
function moduleSpellings(tree: ModuleTree): ReadonlyMap<Node, string[]> {
  const spellings = new Map<Node, string[]>();
  const add = (node: Node, name: string): void => {
    const names = spellings.get(node);
    if (names) names.push(name);
    else spellings.set(node, [name]);
  };
  for (const [name, node] of tree.torchvision) add(node, name);
  for (const module of tree.modules.values()) {
    const last = module.own.at(-1);
    if (module.children.size === 0 && last) {
      add(last, module.path);
      for (const path of batchNormNames(module.path, (other) => tree.modules.has(other))) add(last, path);
    }
    for (const operation of OPERATIONS) {
      const { nodes, unsure } = callsOfOperation(tree, module, operation);
      if (unsure !== undefined) continue;
      nodes.forEach((node, position) => {
        add(node, joinPath(module.path, position === 0 ? operation : `${operation}_${position}`));
      });
    }
  }
  return spellings;
}
