/**
 * Where in the module tree the activations were that quantizers dropped. TorchScript's tensors say it. dynamo's say only what was called,
 * so the place follows from what is left around it. A Sequential runs nothing between its children. Modules of one class run the same code.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node } from '../graph.js';
import { classesOf, isUnder, joinPath, type Place } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import { mayHoldBatchNorm, weightModules } from './batch-norm.js';
import type { LostActivation } from '../float-view/view.js';
import { usersOf } from './users.js';
import type { ModuleTree } from './module.js';

export interface ActivationPlaces {
  /** The places of the nodes that have the values after activations. */
  readonly places: ReadonlyMap<Node, Place>;
  /** Modules that end in a node behind which an activation was dropped: it may have been part of them, or have come after them. */
  readonly doubted: ReadonlyMap<string, readonly Node[]>;
}

/** A dropped activation between the node before it and those that read it. */
interface Dropped {
  readonly node: Node;
  readonly lost: LostActivation;
  readonly place: Place;
  /** The innermost module around all of them. */
  readonly common: string;
  /** The modules in it that contain only the node, outermost first: each may have held the activation. */
  readonly around: readonly string[];
  readonly readers: readonly Node[];
  /** Whether what reads it runs no activation first. */
  readonly isReadAsItIs: boolean;
}

export function placeActivations(graph: Graph, tree: ModuleTree): ActivationPlaces {
  const places = new Map<Node, Place>();
  const doubted = new Map<string, readonly Node[]>();
  const doubt = (paths: readonly string[], node: Node, { after }: LostActivation): void => {
    const candidates = [node, after];
    for (const path of paths) if (tree.modules.get(path)?.last === node) doubted.set(path, candidates);
  };
  const dropped: Dropped[] = [];
  for (const [node, lost] of tree.lost) {
    const place = tree.places.get(node);
    if (place && !tree.places.has(lost.after)) dropped.push(describe(graph, tree, node, lost, place));
  }
  const ending = endingClasses(tree, dropped);
  for (const one of dropped) {
    const { node, lost, around, common } = one;
    const innermost = around.at(-1) ?? common;
    const isInside = runsAtOnce(tree, one);
    const isKnown = (isInside && around.length < 2) || ending.has(classOf(tree, innermost));
    const holder = isKnown ? innermost : isInside ? around[0]! : common;
    const isExact = isKnown || (around.length === 0 && one.isReadAsItIs);
    places.set(lost.after, placeIn(tree, holder, one, isExact));
    doubt(
      around.filter((path) => !isKnown && path !== holder),
      node,
      lost,
    );
  }
  return { places, doubted };
}

function describe(graph: Graph, tree: ModuleTree, node: Node, lost: LostActivation, place: Place): Dropped {
  const readers = usersOf(lost.after);
  const isResult = lost.after.outputs.some((value) => value && graph.isOutput(value));
  const scopes = modulesAround(tree, node, place);
  const holdsAll = (path: string): boolean =>
    readers.length > 0 &&
    !isResult &&
    readers.every((reader) => isUnder(tree.places.get(reader)?.path ?? '', path));
  const common = scopes.findLast(holdsAll) ?? '';
  const around = scopes.filter((path) => path !== common && isUnder(path, common));
  const isReadAsItIs = readers.every((reader) => startsWithout(tree, reader, common));
  return { node, lost, place, common, around, readers, isReadAsItIs };
}

/** The modules that may run code of their own around a node, outermost first: without the layer that the node is. */
function modulesAround(tree: ModuleTree, node: Node, place: Place): readonly string[] {
  const { scheme, scopes, path } = place;
  const module = tree.modules.get(path);
  const isAlone =
    module?.children.size === 0 && module.own.length === 1 && operatorOf(node)?.isLayer === true;
  const isLayer = scheme === 'dynamo' ? place.isLayer : isAlone;
  return ['', ...scopes.filter((scope) => scope !== '' && !(isLayer && scope === path))];
}

/** Whether a dropped activation must have been in the outermost module around its node: nothing runs between that and its readers. */
function runsAtOnce(tree: ModuleTree, { node, common, around, readers, isReadAsItIs }: Dropped): boolean {
  if (around.length === 0 || !isReadAsItIs || !isSequential(tree, common)) return false;
  const index = Math.max(...indicesIn(tree, node, common));
  return readers.every((reader) => Math.min(...indicesIn(tree, reader, common)) === index + 1);
}

function isSequential(tree: ModuleTree, path: string): boolean {
  const module = tree.modules.get(path);
  return (
    module !== undefined &&
    module.own.length === 0 &&
    [...module.children].every((child) => /^\d+$/.test(child))
  );
}

/** The numbers of the children of a Sequential that a node belongs to: with a folded BatchNorm, it is two of them. */
function indicesIn(tree: ModuleTree, node: Node, path: string): number[] {
  const paths = [tree.places.get(node)?.path ?? '', ...weightModules(node)];
  return paths
    .filter((other) => other !== path && isUnder(other, path))
    .map((other) => Number(atomUnder(other, path)));
}

/** The name of the child of a module that a path leads through. */
function atomUnder(path: string, above: string): string {
  return path.slice(above === '' ? 0 : above.length + 1).split('.', 1)[0]!;
}

/** Whether no module from a common one down to a node runs an activation before that node. */
function startsWithout(tree: ModuleTree, node: Node, common: string): boolean {
  const place = tree.places.get(node);
  if (!place) return false;
  return modulesAround(tree, node, place).every((path) => {
    if (path === common || !isUnder(path, common)) return true;
    if (isSequential(tree, path)) return Math.min(...indicesIn(tree, node, path)) === 0;
    return startingClasses(tree).has(classOf(tree, path));
  });
}

/**
 * Classes of modules that do not begin with an activation, as far as those modules show it that do not begin behind a dropped one. The first
 * block of a network is often made with another option than the others, so one module proves it only for the code of libraries.
 */
const startingClasses = oncePer((tree: ModuleTree): ReadonlySet<string> => {
  const counts = new Map<string, number>();
  for (const [path, { first }] of tree.modules) {
    const before = first?.inputs[0]?.producer?.inputs[0]?.producer;
    if (!first || (before && tree.lost.has(before))) continue;
    const name = classOf(tree, path);
    counts.set(name, operatorOf(first)?.isActivation ? -Infinity : (counts.get(name) ?? 0) + 1);
  }
  return new Set([...counts].flatMap(([name, count]) => (count >= (isLibrary(name) ? 1 : 2) ? [name] : [])));
});

/** Classes of libraries that end with an activation: one module does for sure, and none ends without. */
function endingClasses(tree: ModuleTree, dropped: readonly Dropped[]): ReadonlySet<string> {
  const proven = dropped.filter((one) => one.around.length === 1 && runsAtOnce(tree, one));
  const classes = new Set(proven.map(({ around }) => classOf(tree, around[0]!)).filter(isLibrary));
  for (const [path, { last }] of tree.modules) {
    const isActivation = last && (operatorOf(last)?.isActivation === true || tree.lost.has(last));
    if (!isActivation) classes.delete(classOf(tree, path));
  }
  return classes;
}

function isLibrary(name: string): boolean {
  return /^(?:torchvision|timm)\./.test(name);
}

/** The class of a module; in TorchScript's files, which do not state it, the names of its children stand for it. Else a name of its own. */
function classOf(tree: ModuleTree, path: string): string {
  const stated = classNames(tree).get(path);
  if (stated !== undefined && !stated.startsWith('torch.nn.modules.container.')) return stated;
  const children = [...(tree.modules.get(path)?.children ?? [])];
  return children.some((child) => /\D/.test(child)) ? children.sort().join(' ') : `module ${path}`;
}

const classNames = oncePer((tree: ModuleTree): ReadonlyMap<string, string> => {
  const names = new Map<string, string>();
  for (const [node, { scopes }] of tree.places)
    classesOf(node).forEach((name, depth) => scopes[depth] !== undefined && names.set(scopes[depth], name));
  return names;
});

/** torch's names for calls of activations, and torchvision's for the modules that make them. */
const MODULE_NAMES: ReadonlyMap<string, string> = new Map([
  ['relu', 'relu'],
  ['hardtanh', 'relu6'],
]);

/**
 * The place of a dropped activation in a module: its number in a Sequential, or the name that torchvision has for such a call.
 *
 * @param isExact - Whether it was no deeper in that module.
 */
function placeIn(
  tree: ModuleTree,
  path: string,
  { node, lost, place, common, readers }: Dropped,
  isExact: boolean,
): Place {
  const scopes = place.scopes.filter((scope) => isUnder(path, scope));
  const operation = lost.name ?? '';
  const own: Place = { scheme: place.scheme, path, scopes, operation, isLayer: false };
  const child = (atom: string | number): Place => {
    const inner = joinPath(path, String(atom));
    return { ...own, path: inner, scopes: [...scopes, inner], isLayer: true };
  };
  if (!isExact) return own;
  const name = MODULE_NAMES.get(operation.replace(/_\d+$/, ''));
  if (!isSequential(tree, path)) return name === undefined ? own : child(name);
  // A norm that TorchScript's exporter folded is a child behind its convolution.
  const index = Math.max(...indicesIn(tree, node, path)) + (mayHoldBatchNorm(node, place) ? 1 : 0);
  if (path !== common) return child(index + 1);
  // Of several children that vanished there, the last one has its value for sure.
  const next = Math.min(...readers.flatMap((reader) => indicesIn(tree, reader, path)));
  return next > index + 1 ? child(next - 1) : own;
}
