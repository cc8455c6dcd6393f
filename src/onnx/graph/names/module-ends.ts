/**
 * Whether the value at the end of a module is the module's own. Where a module ends in a convolution into which the exporter
 * folded a BatchNorm, that BatchNorm may be the module's last child, or come after the module.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Node } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import { isConvolution, mayHoldBatchNorm } from './batch-norm.js';
import { isUnder, joinPath, splitPath } from '../module-path.js';
import { usersOf } from './users.js';
import type { Module, ModuleTree } from './module.js';

/** The convolution that computes a node's value, itself or through rounding, if a BatchNorm may be folded into it. */
export function foldedEnd(tree: ModuleTree, node: Node): Node | undefined {
  const isCopy = node.opType === 'Identity' || node.opType === 'ReorderOutput';
  const at = isCopy ? node.inputs[0]?.producer : node;
  const place = at && tree.places.get(at);
  return at && place && mayHoldBatchNorm(at, place) ? at : undefined;
}

/**
 * Why a module that ends in such a convolution may have another value. A container of a convolution and its BatchNorm
 * (`Sequential(conv, bn)`) looks like a wrapper whose BatchNorm comes after it (`bn(SeparableConv2d(x))`), so all signs of a
 * wrapper count. On 110 networks of torchvision and timm no wrapper was without one.
 *
 * @returns `undefined` if there is no sign of a BatchNorm after the module.
 */
export function doubtEnd(tree: ModuleTree, module: Module, end: Node): string | undefined {
  const { path } = tree.places.get(end)!;
  // The convolution is the module itself, with children (padding), or in a further call of it.
  if (path === module.path || !isUnder(path, module.path)) return 'the convolution is the module itself';
  if (feedsActivation(tree, module, end)) return 'an activation follows it outside the module';
  if (hasGapBehind(tree, module)) return 'a module after it vanished';
  const holder = tree.modules.get(splitPath(path)[0])!;
  const doubt = doubtHolder(tree, holder, end);
  return doubt !== undefined && !normalisesInside(tree, module, path) ? doubt : undefined;
}

function feedsActivation(tree: ModuleTree, { path }: Module, end: Node): boolean {
  return usersOf(end).some(
    (user) => operatorOf(user)?.isActivation && !isUnder(tree.places.get(user)?.path ?? '', path),
  );
}

/**
 * Whether a fused operator (SkipLayerNormalization) adds a module's residual after its last node. So it is if what it adds comes out of the
 * module, or is what the module reads itself: a block of a transformer does, the attention in it reads normalised values.
 */
export function losesSum(tree: ModuleTree, path: string, last: Node): boolean {
  const isInside = (node: Node | undefined): boolean => {
    const place = node && tree.places.get(node);
    return place !== undefined && isUnder(place.path, path);
  };
  const users = last.outputs.flatMap((output) => output?.uses ?? []);
  return users.some((user) => {
    if (user.domain !== 'com.microsoft' || !user.opType.startsWith('Skip') || isInside(user)) return false;
    const other = user.inputs.slice(0, 2).find((input) => input?.producer !== last);
    return isInside(other?.producer) || other?.uses.some(isInside) === true;
  });
}

/** Whether the module, or one around it that ends where it ends, has a vanished sibling after it in a Sequential. */
function hasGapBehind(tree: ModuleTree, module: Module): boolean {
  for (let at = module; at.path !== '';) {
    const [parentPath, atom] = splitPath(at.path);
    const parent = tree.modules.get(parentPath)!;
    const next = Number(atom) + 1;
    if (/^\d+$/.test(atom) && !parent.children.has(String(next)) && next < lastNumber(parent)) return true;
    if (parent.last !== at.last) return false;
    at = parent;
  }
  return false;
}

/** The highest number of a module's children; -1 if they have other names. */
const lastNumber = oncePer(({ children }: Module): number => {
  let last = -1;
  for (const child of children) if (/^\d+$/.test(child)) last = Math.max(last, Number(child));
  return last;
});

/** Signs that the module around a convolution only wraps it. */
function doubtHolder(tree: ModuleTree, holder: Module, end: Node): string | undefined {
  const { path } = tree.places.get(end)!;
  const isAlone = (tree.modules.get(splitPath(holder.path)[0])?.children.size ?? 0) === 1;
  if (isAlone && /(?:^|\.)\d+$/.test(holder.path)) return 'it is the only module of a Sequential';
  const feeder = end.inputs[0]?.producer;
  const from = feeder && tree.places.get(feeder)?.path;
  if (feeder && from !== undefined && isUnder(from, holder.path) && !isUnder(from, path)) {
    if (feeder.opType === 'Pad') return 'the module pads and convolves, and may do nothing else';
    if (isConvolution(feeder) && !foldedEnd(tree, feeder))
      return 'the convolution before it in the module has no BatchNorm either';
  }
  return wrapperKinds(tree).has(kindOf(holder, end, tree))
    ? 'an activation follows another such module'
    : undefined;
}

/** Kinds of modules of which one has an activation after it: its BatchNorm may be there, too. */
const wrapperKinds = oncePer((tree: ModuleTree): ReadonlySet<string> => {
  const found = new Set<string>();
  for (const module of tree.modules.values()) {
    const end = module.last && module.children.size > 0 ? foldedEnd(tree, module.last) : undefined;
    const isHolder = end !== undefined && splitPath(tree.places.get(end)!.path)[0] === module.path;
    if (isHolder && module.path !== '' && lastNumber(module) < 0 && feedsActivation(tree, module, end))
      found.add(kindOf(module, end, tree));
  }
  return found;
});

/** Modules of one class have the same children and end in the same one. */
function kindOf(module: Module, end: Node, tree: ModuleTree): string {
  const rest = tree.places.get(end)!.path.slice(module.path.length + 1);
  return `${rest}: ${[...module.children].sort().join()}`;
}

/**
 * Whether a module has a BatchNorm after another child like the one it ends in: then also after that (`rep` of Xception is
 * SeparableConv2d, BatchNorm, ReLU, SeparableConv2d, BatchNorm).
 */
function normalisesInside(tree: ModuleTree, module: Module, path: string): boolean {
  for (let at = splitPath(path)[0]; isUnder(at, module.path) && at !== module.path; at = splitPath(at)[0]) {
    const [aroundPath] = splitPath(at);
    const around = tree.modules.get(aroundPath)!;
    const kind = kindUnder(tree, at);
    for (const child of around.children) {
      const other = joinPath(aroundPath, child);
      const end = other === at ? undefined : tree.modules.get(other)?.last;
      if (!end || kindUnder(tree, other) !== kind || kind === undefined) continue;
      const isReadInside = usersOf(end).some((user) => {
        const place = tree.places.get(user)?.path ?? '';
        return isUnder(place, aroundPath) && !isUnder(place, other);
      });
      if (isReadInside) return true;
    }
  }
  return false;
}

function kindUnder(tree: ModuleTree, path: string): string | undefined {
  const module = tree.modules.get(path);
  const end = module?.last && foldedEnd(tree, module.last);
  return module && end && kindOf(module, end, tree);
}
