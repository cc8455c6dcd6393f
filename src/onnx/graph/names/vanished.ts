/** Modules that left no node, in a Sequential whose other children did. */
import { oncePer } from '../../../base/once-per.js';
import { joinPath, splitPath } from '../module-path.js';
import { usersOf } from './users.js';
import type { Module, ModuleTree } from './module.js';
import { isBlocked } from './other-form.js';
import { foldedBehind, readNode, type ModuleReading } from './readings.js';

/**
 * A gap in a Sequential: a child without nodes between two that have some passes its input on (Dropout, Identity).
 * TorchScript and dynamo give a scope only to modules whose forward runs, so a ModuleList has none.
 */
export function readVanished(tree: ModuleTree, path: string): ModuleReading | undefined {
  const [parent, atom] = splitPath(path);
  const container = tree.modules.get(parent);
  if (!container || !/^\d+$/.test(atom) || container.own.length > 0) return undefined;
  const indices = orderedChildren(container, tree);
  if (indices === undefined || indices.at(-1)! < Number(atom)) return undefined;
  const why = `"${path}" does nothing in an exported model (Dropout, Identity): the value it passes on`;
  const before = lastBelow(indices, Number(atom));
  const after = tree.modules.get(joinPath(parent, String(indices.find((index) => index > Number(atom)))));
  const doubt = after && doubtVanished(after, path, Number(atom));
  if (doubt) return doubt;
  if (before === undefined) return readEntered(tree, joinPath(parent, String(indices[0])), why);
  const source = tree.modules.get(joinPath(parent, String(before)));
  if (source && tree.takenBy.has(source.path)) return undefined;
  if (!source?.last) return undefined;
  // What a quantizer dropped may have been here.
  return tree.lost.has(source.last) ? foldedBehind(path, undefined) : readNode(source.last, why);
}

/** What dynamo's optimiser does with nodes that leave the values of others as they are. */
const KEEPS_VALUES = /RemoveOptionalBias|MaterializeReshape|Flatten2Reshape/;

/**
 * Whether a child that vanished may have computed something. Of several in a row, exporters cancel two permutations, or fold two BatchNorms
 * into what is before them: only the last one has a value that is still there. And a rule that merged nodes into the first one after the gap
 * took them from the gap.
 */
function doubtVanished(after: Module, path: string, index: number): ModuleReading | undefined {
  const next = Number(splitPath(after.path)[1]);
  if (next > index + 1) {
    const why = `"${path}" and the modules after it up to "${after.path}" vanished together, and may have computed something in between`;
    return { kind: 'folded', why };
  }
  const rules = after.first?.scanned.metadata.get('pkg.onnxscript.rewriter.rule_name')?.split(',') ?? [];
  const isKept = rules.every((rule) => KEEPS_VALUES.test(rule)) && !(after.first && isBlocked(after.first));
  return isKept ? undefined : foldedBehind(path, after.path);
}

/**
 * What enters a Sequential, for children that vanished in front of its first one. Only where that is a Linear: a
 * convolution there may hold those children itself.
 */
function readEntered(tree: ModuleTree, path: string, why: string): ModuleReading | undefined {
  const module = tree.modules.get(path);
  const node = module?.first;
  if (!node || (node.opType !== 'Gemm' && node.opType !== 'MatMul')) return undefined;
  const [value] = node.inputs;
  return value && !value.initializer ? { kind: 'value', value, why } : undefined;
}

/** The numbers of a module's children in order, if they run one after the other: a Sequential, no list of branches. */
const orderedChildren = oncePer((container: Module, tree: ModuleTree): readonly number[] | undefined => {
  const children = [...container.children];
  const indices = children.map(Number).sort((a, b) => a - b);
  const isNumbered = children.every((child) => /^\d+$/.test(child));
  return isNumbered && runsInOrder(tree, container.path, indices) ? indices : undefined;
});

/** The last of ascending numbers that is below a limit. */
function lastBelow(numbers: readonly number[], limit: number): number | undefined {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return numbers[low - 1];
}

function runsInOrder(tree: ModuleTree, parent: string, indices: readonly number[]): boolean {
  const modules = indices.map((index) => tree.modules.get(joinPath(parent, String(index))));
  return modules.every((module, i) => {
    const next = modules[i + 1];
    if (!module?.last || !next) return true;
    const { first } = next;
    return first !== undefined && first.index > module.last.index && usersOf(module.last).includes(first);
  });
}
