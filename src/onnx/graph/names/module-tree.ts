/** The module tree of the source network, as far as the nodes of the file still show it. */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node } from '../graph.js';
import { weightModules } from './batch-norm.js';
import { firstPlaceOf, isUnder, joinPath, placeOf, splitPath, type Place } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import { nodeRoles } from '../roles.js';
import { ordinalNames } from './ordinal-names.js';
import { placeByParameters } from './parameter-places.js';
import { placeActivations } from './activation-places.js';
import { floatView } from '../float-view/float-view.js';
import type { ModuleTree } from './module.js';

interface Draft {
  readonly path: string;
  own: Node[];
  aside: Node[];
  calls: Node[][];
  children: Set<string>;
  first: Node | undefined;
  last: Node | undefined;
}

// Most modules have no children or no nodes; these shared lists stay empty.
const NO_NODES: Node[] = [];
const NO_CALLS: Node[][] = [];
const NO_CHILDREN = new Set<string>();

/** The module tree of a graph, or of its float view; built on first use. Nodes of both have their places. */
export const moduleTree: (graph: Graph) => ModuleTree = oncePer((graph) => {
  const view = floatView(graph);
  if (view.graph !== graph) {
    const tree = moduleTree(view.graph);
    const places = new Map(tree.places);
    for (const node of graph.nodes) {
      const place = places.get(view.nodeOf(node) ?? node);
      if (place) places.set(node, place);
    }
    return { ...tree, places };
  }
  const plain = buildTree(graph, new Map(), new Map());
  const isStripped =
    plain.scheme === undefined ? !ordinalNames(graph) : plain.scheme === 'dynamo' && plain.isRewritten;
  const found = isStripped ? placeByParameters(graph, plain.places) : new Map<Node, Place>();
  const isFound = found.size > 0;
  const tree = isFound ? buildTree(graph, found, new Map(), isFound) : plain;
  if (tree.lost.size === 0) return tree;
  const { places, doubted } = placeActivations(graph, tree);
  return buildTree(graph, new Map([...found, ...places]), doubted, isFound);
});

function buildTree(
  graph: Graph,
  found: ReadonlyMap<Node, Place>,
  doubted: ModuleTree['doubted'],
  isStripped = false,
): ModuleTree {
  const roles = nodeRoles(graph);
  const places = new Map<Node, Place>();
  const modules = new Map<string, Draft>();
  const moduleOf = (path: string): Draft => {
    let module = modules.get(path);
    if (!module) {
      module = {
        path,
        own: NO_NODES,
        aside: NO_NODES,
        calls: NO_CALLS,
        children: NO_CHILDREN,
        first: undefined,
        last: undefined,
      };
      modules.set(path, module);
      if (path !== '') {
        const [parent, atom] = splitPath(path);
        addChild(moduleOf(parent), atom);
      }
    }
    return module;
  };
  const calls: Call[] = [];
  let before: string | undefined;
  for (const node of graph.nodes) {
    const place = found.get(node) ?? placeOf(node);
    if (!place) continue;
    places.set(node, place);
    const module = moduleOf(place.path);
    // Sizes computed inside a module (for a Reshape after it) and folded constants are not its result.
    if (roles.get(node) !== 'data') {
      module.aside = append(module.aside, node);
      continue;
    }
    // Nodes of one call follow each other; a node of another module between them means the module ran again.
    if (place.path !== before) calls.push({ module, nodes: [] });
    before = place.path;
    module.own = append(module.own, node);
    calls.at(-1)!.nodes.push(node);
  }
  const single = joinInterleaved(calls, places).flatMap((call) => splitRepeated(call, places));
  for (const { module, nodes } of single) module.calls = append(module.calls, nodes);
  spreadEnds(modules, places);
  const takenBy = new Map<string, Node>();
  const inLayers = weightModulesOf(places);
  for (const node of graph.nodes) {
    const path = places.get(node)?.path;
    for (const taken of modulesIn(node, inLayers)) {
      // A fused node that computes an output of the graph tells where it began, and not where it ends.
      for (let at = taken; at !== '' && (path === undefined || !isUnder(path, at)); at = splitPath(at)[0]) {
        moduleOf(at);
        takenBy.set(at, node);
      }
    }
  }
  const scheme = [...places.values()][0]?.scheme;
  const results = new Set(single.map(({ nodes }) => nodes.at(-1)!));
  const torchvision = torchvisionNames(single);
  const { lost, isRewritten } = floatView(graph);
  const dropped = new Set(Array.from(lost.values(), ({ after }) => after));
  return {
    scheme,
    modules,
    places,
    takenBy,
    lost,
    dropped,
    isRewritten,
    isStripped,
    doubted,
    results,
    torchvision,
  };
}

/** Appends to a list that may be one of the shared empty ones. */
function append<Item>(list: Item[], item: Item): Item[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}

function addChild(module: Draft, atom: string): void {
  if (module.children === NO_CHILDREN) module.children = new Set();
  module.children.add(atom);
}

interface Call {
  readonly module: Draft;
  readonly nodes: Node[];
}

/**
 * TorchScript marks repeated calls of a module in its path. So nodes of one path belong to one call even if nodes of other
 * modules come between them (sorting again mixes parallel branches), unless an operator repeats.
 */
function joinInterleaved(calls: readonly Call[], places: ReadonlyMap<Node, Place>): Call[] {
  const last = new Map<Draft, { readonly nodes: Node[]; kinds: Set<string> | undefined }>();
  const joined: Call[] = [];
  for (const call of calls) {
    const before = last.get(call.module);
    const isMarked = places.get(call.nodes[0]!)!.scheme === 'torchscript';
    const kinds =
      before && isMarked ? (before.kinds ??= new Set(before.nodes.map((node) => node.opType))) : undefined;
    if (before && kinds && !call.nodes.some((node) => kinds.has(node.opType))) {
      for (const node of call.nodes) {
        before.nodes.push(node);
        kinds.add(node.opType);
      }
    } else {
      last.set(call.module, { nodes: call.nodes, kinds: undefined });
      joined.push(call);
    }
  }
  return joined;
}

/** A layer that runs several times in a row leaves the same sequence of operators per call. */
function splitRepeated({ module, nodes }: Call, places: ReadonlyMap<Node, Place>): Call[] {
  const isLayer = module.children.size === 0 && places.get(nodes[0]!)!.isLayer;
  if (!isLayer || nodes.length === 1) return [{ module, nodes }];
  const kinds = nodes.map((node) => `${node.opType} ${places.get(node)!.operation.replace(/_\d+$/, '')}`);
  const period = kinds.findIndex(
    (_, i) => i > 0 && kinds.length % i === 0 && kinds.every((kind, j) => kind === kinds[j % i]),
  );
  if (period < 0) return [{ module, nodes }];
  return Array.from({ length: nodes.length / period }, (_, k) => ({
    module,
    nodes: nodes.slice(k * period, (k + 1) * period),
  }));
}

/**
 * Finds the first and the last node of each module. A network may call a child without the module around it (`features[0](x)`): what the
 * child computes then is no part of that module, if it ever runs as a whole.
 */
function spreadEnds(modules: ReadonlyMap<string, Draft>, places: ReadonlyMap<Node, Place>): void {
  const running = new Set<string>();
  for (const { scopes } of places.values()) for (const scope of scopes) running.add(scope);
  for (const { path, own } of modules.values()) {
    for (const node of own) {
      const { scopes } = places.get(node)!;
      for (let at = path; ; at = splitPath(at)[0]) {
        const module = modules.get(at);
        if (module && (scopes.includes(at) || !running.has(at))) {
          if (!module.first || module.first.index > node.index) module.first = node;
          if (!module.last || module.last.index < node.index) module.last = node;
        }
        if (at === '') break;
      }
    }
  }
}

/** The paths of modules that a node computes: others than its place if operators were fused. */
function modulesIn(node: Node, inLayers: ReadonlyMap<Node, readonly string[]>): readonly string[] {
  const first = firstPlaceOf(node);
  return first?.scheme === 'torchscript' ? [first.path] : (inLayers.get(node) ?? []);
}

/**
 * The modules that layers have the weights of and that no node of their own reads: dynamo's optimiser folds others into layers, which keep the
 * weights of the first module. What reads the weights of a module with a node runs that module again, or is tied to it.
 */
function weightModulesOf(places: ReadonlyMap<Node, Place>): ReadonlyMap<Node, readonly string[]> {
  const found = new Map<Node, readonly string[]>();
  const running = new Set<string>();
  for (const [node, { path }] of places) {
    if (!operatorOf(node)?.isLayer) continue;
    const modules = weightModules(node);
    found.set(node, modules);
    for (const module of modules) if (isUnder(path, module)) running.add(module);
  }
  for (const [node, modules] of found)
    found.set(
      node,
      modules.filter((module) => !running.has(module)),
    );
  return found;
}

function torchvisionNames(calls: readonly Call[]): ReadonlyMap<string, Node> {
  const counts = new Map<string, number>();
  const names = new Map<string, Node>();
  for (const { module, nodes } of calls) {
    if (module.children.size > 0 || module.path === '') continue;
    const [parent, atom] = splitPath(module.path);
    const base = joinPath(parent, atom.replace(/_\d+$/, ''));
    const count = counts.get(base) ?? 0;
    counts.set(base, count + 1);
    names.set(count === 0 ? base : `${base}_${count}`, nodes.at(-1)!);
  }
  return names;
}
