/** The names that a model offers, as torchvision's get_graph_node_names lists them. */
import { oncePer } from '../../../base/once-per.js';
import { batchNormNames } from './batch-norm.js';
import type { Graph, Node, Value } from '../graph.js';
import { layerNames } from './keras-names.js';
import { layerEnds } from './keras2onnx-names.js';
import { nodeRoles } from '../roles.js';
import { joinPath } from '../module-path.js';
import { nonTensorType } from '../rewrite/prune.js';
import type { Module, ModuleTree } from './module.js';
import { moduleTree } from './module-tree.js';
import { isSharedName, resolveName } from './resolve-names.js';
import { floatView } from '../float-view/float-view.js';
import { ordinalNames } from './ordinal-names.js';
import { callsOfOperation, operationsIn } from './operations.js';

/**
 * Names a user may ask for, in execution order: torchvision's spelling where the file carries module paths, else node
 * names, else tensor names. Each name resolves to a different tensor.
 */
export function listNames(graph: Graph): string[] {
  return [...nameValues(graph)].flatMap(([value, name]) =>
    nonTensorType(value) === undefined ? [name] : [],
  );
}

/** The best name of each value that depends on the input, in execution order. */
export function nameValues(graph: Graph): ReadonlyMap<Value, string> {
  const view = floatView(graph);
  const tree = moduleTree(view.graph);
  const roles = nodeRoles(view.graph);
  const torchvision = new Map([...tree.torchvision].map(([name, node]) => [node, name]));
  const known = knownNames(graph);
  const layers = new Map(layerNames(view.graph));
  for (const [name, end] of layerEnds(view.graph)) if (end.kind === 'node') layers.set(end.node, name);
  const names = new Map<Value, string>();
  for (const value of graph.inputs)
    names.set(value, firstDenoting(graph, value, () => [value.name]) ?? `tensor:${value.name}`);
  for (const node of view.graph.nodes) {
    if (roles.get(node) !== 'data') continue;
    const isHidden = isInner(tree, node);
    node.outputs.forEach((result, k) => {
      if (!result || (k > 0 && result.uses.length === 0 && !view.graph.isOutput(result))) return;
      const value = view.heldOf(result)?.value;
      if (!value || names.has(value)) return;
      const isGiven = hasGivenName(tree, node, value);
      if (isHidden && !isGiven) return;
      const name = firstDenoting(graph, value, function* () {
        yield* known.get(value.name) ?? [];
        if (isGiven) yield value.name;
        yield torchvision.get(node) ?? '';
        yield* moduleSpellings(tree, node);
        yield layers.get(node) ?? '';
        // The bare name can only mean the first output, or the only one that is used; trying it for all would be quadratic.
        if (k < 4 && !isSharedName(graph, node.name)) yield node.name;
        yield `${node.name}:${k}`;
        yield value.name;
        yield `tensor:${value.name}`;
      });
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
  const view = floatView(graph);
  if (moduleTree(graph).scheme === undefined)
    for (const [name, value] of ordinalNames(view.graph)?.values ?? [])
      add(view.heldOf(value)?.value.name ?? '', name);
  return names;
}

/** The first of some names that denotes a value. Most often it is the first one, and the others are never made. */
function firstDenoting(graph: Graph, value: Value, candidates: () => Iterable<string>): string | undefined {
  for (const name of candidates()) {
    const found = name === '' ? undefined : resolveName(graph, name);
    if (found && 'value' in found && found.value === value) return name;
  }
  return undefined;
}

/**
 * Whether a tensor has a name in torchvision's spelling, as the networks of hub/zoo have them: TorchScript names tensors after their nodes.
 * A module of one node keeps its own name.
 */
function hasGivenName(tree: ModuleTree, node: Node, { name }: Value): boolean {
  const place = tree.places.get(node);
  if (place?.scheme !== 'torchscript') return false;
  const module = tree.modules.get(place.path);
  if (module?.children.size === 0 && module.own.length === 1) return false;
  return place.path === '' ? /^[a-z]+(?:_[a-z]+|_?\d+d?)*$/.test(name) : name.startsWith(`${place.path}.`);
}

/** A node inside a leaf module whose result is another node's: torchvision shows such a module as one. */
function isInner(tree: ModuleTree, node: Node): boolean {
  const path = tree.places.get(node)?.path;
  const module = path === undefined || path === '' ? undefined : tree.modules.get(path);
  return module?.children.size === 0 && !tree.results.has(node);
}

/** Names to try for a node: the true path, that of a folded BatchNorm, then the operation by its place in the module. */
function* moduleSpellings(tree: ModuleTree, node: Node): Generator<string> {
  const module = tree.modules.get(tree.places.get(node)?.path ?? '');
  if (!module) return;
  if (module.children.size === 0 && module.own.at(-1) === node) {
    yield module.path;
    yield* batchNormNames(module.path, (other) => tree.modules.has(other));
  }
  yield* operationNames(module, tree).get(node) ?? [];
}

/** The names of a module's nodes as operations. */
const operationNames = oncePer((module: Module, tree: ModuleTree): ReadonlyMap<Node, readonly string[]> => {
  const names = new Map<Node, string[]>();
  for (const operation of operationsIn(module)) {
    const { nodes, unsure } = callsOfOperation(tree, module, operation);
    if (unsure !== undefined) continue;
    nodes.forEach((node, position) => {
      const name = joinPath(module.path, position === 0 ? operation : `${operation}_${position}`);
      names.set(node, [...(names.get(node) ?? []), name]);
    });
  }
  return names;
});
