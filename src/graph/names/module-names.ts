/** Module path → value: the right value, or a refusal that names what exists instead. */
import { oncePer } from '../../base/once-per.js';
import { batchNormNames, isConvolution, mayHoldBatchNorm, weightModules } from './batch-norm.js';
import { beforeRounding, doubtEnd, foldedEnd, losesSum } from './module-ends.js';
import { readStage } from './flat-names.js';
import type { Graph, Node, Value } from '../graph.js';
import { readLayer } from './keras-names.js';
import { joinPath, splitPath } from '../module-path.js';
import { moduleTree, type Module, type ModuleTree } from './module-tree.js';
import { readOrdinal } from './ordinal-names.js';
import { hasGapBefore, readOperation } from './operations.js';
import { isBlocked, losesBias, otherForm } from './other-form.js';

/** What a module path denotes. */
export type ModuleReading =
  | { readonly kind: 'value'; readonly value: Value; readonly why: string }
  /** The value is not in the file. */
  | { readonly kind: 'folded'; readonly why: string; readonly instead?: string | undefined }
  /** It may be one of several nodes, and the file does not say which. */
  | { readonly kind: 'unsure'; readonly why: string; readonly candidates: readonly Node[] }
  | { readonly kind: 'clash'; readonly readings: readonly { readonly path: string; readonly value: Value }[] }
  | { readonly kind: 'outputs'; readonly node: Node };

/**
 * Reads a module path.
 *
 * @param strict - Take the path as the module's true name and leave torchvision's renumbering aside (`module:`).
 * @returns undefined if no module or operation has this name.
 */
export function readModulePath(graph: Graph, path: string, strict: boolean): ModuleReading | undefined {
  const tree = moduleTree(graph);
  if (path === '') return undefined;
  if (tree.scheme === undefined) return readOtherNaming(graph, path);
  const module = tree.modules.get(path);
  const taken = tree.takenBy.get(path);
  if (taken && !(module?.last && module.last.index > taken.index))
    return foldedBehind(path, tree.places.get(taken)?.path);
  const reading = module
    ? module.children.size > 0
      ? readContainer(tree, module)
      : readLeaf(tree, module, strict)
    : readAbsent(graph, tree, path, strict);
  return reading ?? readOutsideModules(tree, path);
}

/** Files without module paths: Keras layers, stages in flat names. */
function readOtherNaming(graph: Graph, path: string): ModuleReading | undefined {
  const layer = readLayer(graph, path);
  if (layer) return layer.kind === 'folded' ? layer : readNode(layer.node, layer.why);
  const last = readStage(graph, path);
  if (last) return readNode(last, `last node whose name begins with "${path}"`);
  const step = readOrdinal(graph, path);
  if (!step) return undefined;
  if ('folded' in step) {
    const why = `the exporter folded what follows (BatchNorm) into the convolution "${path}", and its value before that is not in the file`;
    return { kind: 'folded', why, instead: step.folded };
  }
  const why = `"${step.name}" of torchvision's ${step.architecture}, whose operators these are, one by one`;
  return { kind: 'value', value: step.value, why };
}

/** The tensor that a node denotes: its only used output, unless that has another form than torch's. */
function readNode(node: Node, why: string): ModuleReading {
  const form = otherForm(node);
  if (form !== undefined) return { kind: 'folded', why: form };
  const outputs = node.outputs.filter((value) => value !== undefined);
  const used = outputs.filter((value) => value.uses.length > 0);
  const value = outputs.length === 1 ? outputs[0] : used.length === 1 ? used[0] : undefined;
  return value ? { kind: 'value', value, why } : { kind: 'outputs', node };
}

/** A container denotes the last node under it. */
function readContainer(tree: ModuleTree, module: Module): ModuleReading | undefined {
  let { last } = module;
  // TorchScript numbers only the innermost scope: the operations of a second run of `blk` are under `blk_1`.
  const repeated = [...module.children].some((child) => /_\d+$/.test(child));
  for (let k = 1; repeated && tree.scheme === 'torchscript'; k++) {
    const again = tree.modules.get(`${module.path}_${k}`);
    if (!again) break;
    if (again.children.size > 0) {
      const why = `"${module.path}" runs several times, and the exporter mixed its runs with the module "${again.path}"`;
      return { kind: 'folded', why };
    }
    if (again.last && (!last || again.last.index > last.index)) last = again.last;
  }
  if (!last) return undefined;
  return (
    refuseEnd(tree, module, last) ??
    mergedBehind(tree, module.path, last) ??
    readNode(last, `last node under module "${module.path}"`)
  );
}

/** The refusal of a container whose last node holds the value of a BatchNorm that may come after it. */
function refuseEnd(tree: ModuleTree, module: Module, last: Node): ModuleReading | undefined {
  const end = foldedEnd(tree, last);
  const doubt = end && doubtEnd(tree, module, end);
  if (!end || doubt === undefined) return undefined;
  const { path } = tree.places.get(end)!;
  if (path === module.path) return foldedInto(tree, end, path);
  const why = `it ends in the convolution "${path}", into which the exporter folded a BatchNorm that may come after "${module.path}": ${doubt}`;
  return { kind: 'unsure', why, candidates: [last] };
}

/** The rules with which dynamo's optimiser makes one node of two: the first may have been the end of another module. */
const MERGES = /ReshapeReshape|TransposeTranspose|UnsqueezeUnsqueeze/;
/** The same for activations and bounds. A layer of torch.nn that has a node ends in neither. */
const MERGES_BOUNDS = /FuseSuccessive|FuseM(?:axMin|inMax)/;

/** Whether an optimiser merged the end of a module into what follows. */
function mergedBehind(tree: ModuleTree, path: string, last: Node): ModuleReading | undefined {
  const taken = losesBias(last) ? 'bias' : losesSum(tree, path, last) ? 'sum at the end' : undefined;
  if (taken) {
    const why = `ONNX Runtime's optimiser took the ${taken} of "${path}" over into the operator after it; cut the file from before that`;
    return { kind: 'folded', why };
  }
  if (tree.scheme !== 'dynamo') return undefined;
  const users = last.outputs.flatMap((output) => output?.uses ?? []);
  const end = tree.places.get(last);
  const isLayer = end?.isLayer === true && end.path === path;
  const isMerged = users.some((user) => {
    const rules = user.scanned.metadata.get('pkg.onnxscript.rewriter.rule_name') ?? '';
    const place = tree.places.get(user)?.path ?? '';
    const isMerging = MERGES.test(rules) || (!isLayer && MERGES_BOUNDS.test(rules));
    return isMerging && place !== path && !place.startsWith(`${path}.`);
  });
  const why = `the exporter merged the end of "${path}" into what follows; export with optimize=False to keep it`;
  return isMerged ? { kind: 'folded', why } : undefined;
}

function readLeaf(tree: ModuleTree, module: Module, strict: boolean): ModuleReading | undefined {
  const { path } = module;
  const first = module.calls[0]?.at(-1);
  if (!first) return undefined;
  const end = foldedEnd(tree, first);
  if (end) return foldedInto(tree, end, path);
  const merged = mergedBehind(tree, path, first);
  if (merged) return merged;
  if (tree.scheme === 'dynamo' && first.opType === 'Pad' && hasGapBefore(tree, first)) {
    const why = `the exporter merged a padding into a convolution, which may be the first call of "${path}"`;
    return { kind: 'folded', why };
  }
  const { length } = module.calls;
  const own = readNode(first, length > 1 ? `first of ${length} calls of "${path}"` : `module "${path}"`);
  const other = strict ? undefined : tree.torchvision.get(path);
  if (!other || other === first) return own;
  const otherPath = tree.places.get(other)?.path ?? '';
  const reading = readNode(other, '');
  if (own.kind !== 'value' || reading.kind !== 'value') return own;
  return {
    kind: 'clash',
    readings: [
      { path, value: own.value },
      { path: otherPath, value: reading.value },
    ],
  };
}

/** The refusal for a convolution that holds its BatchNorm's value; names the BatchNorm if that is sure. */
function foldedInto(tree: ModuleTree, node: Node, path: string): ModuleReading {
  const instead = foldedNames(tree, node, path).find((name) => readFoldedNorm(tree, name));
  const hint =
    'its value before that is not in the file; export again with training=TrainingMode.PRESERVE to keep it';
  const why = `the exporter folded what follows (BatchNorm) into the convolution "${path}", and ${hint}`;
  return { kind: 'folded', why, instead };
}

/** The BatchNorm paths whose value a folded convolution may hold, by the naming rules alone. */
function foldedNames(tree: ModuleTree, node: Node, convolution: string): string[] {
  const place = tree.places.get(node);
  if (!place || !mayHoldBatchNorm(node, place)) return [];
  const isPresent = (path: string): boolean => (tree.modules.get(path)?.own.length ?? 0) > 0;
  return batchNormNames(convolution, isPresent).filter((path) => !tree.modules.has(path));
}

/** A name without nodes: a module that vanished, or torchvision's spelling of another one. */
function readAbsent(
  graph: Graph,
  tree: ModuleTree,
  path: string,
  strict: boolean,
): ModuleReading | undefined {
  const renumbered = strict ? undefined : tree.torchvision.get(path);
  if (renumbered) {
    const place = tree.places.get(renumbered)!;
    const end = foldedEnd(tree, renumbered);
    if (end) return foldedInto(tree, end, place.path);
    return readNode(renumbered, `torchvision's name for a call of module "${place.path}"`);
  }
  const owner = ownerOfWeights(graph, path);
  if (owner) return foldedBehind(path, tree.places.get(owner)?.path);
  return readFoldedNorm(tree, path) ?? readVanished(tree, path);
}

/** The refusal for a module that vanished into another one. */
function foldedBehind(path: string, instead: string | undefined): ModuleReading {
  const why = `the exporter folded module "${path}" into what follows; its own value is not in the file`;
  return { kind: 'folded', why, instead };
}

/** The node that reads the weights of a module that has no node. */
function ownerOfWeights(graph: Graph, path: string): Node | undefined {
  const weight = graph.values.get(`${path}.weight`);
  return weight?.initializer && weight.uses.find((node) => weightModules(node).includes(path));
}

/** A BatchNorm that was folded: exactly one convolution beside it can hold its value. */
function readFoldedNorm(tree: ModuleTree, path: string): ModuleReading | undefined {
  const parent = tree.modules.get(splitPath(path)[0]);
  const holder = parent && normHolders(parent, tree).get(path);
  if (!holder) return undefined;
  const convolution = tree.places.get(holder)!.path;
  return readNode(holder, `BatchNorm "${path}", folded by the exporter into convolution "${convolution}"`);
}

/** The convolutions in a module that hold BatchNorms beside them, by the paths of those; `undefined` for several. */
const normHolders = oncePer((parent: Module, tree: ModuleTree): ReadonlyMap<string, Node | undefined> => {
  const found = new Map<string, Node | undefined>();
  let [plain, numbered] = [0, 0];
  for (const child of parent.children) {
    const convolution = joinPath(parent.path, child);
    const module = tree.modules.get(convolution);
    const node = module?.own.length === 1 ? module.own[0]! : undefined;
    const names = node && isConvolution(node) ? foldedNames(tree, node, convolution) : [];
    for (const name of names) found.set(name, found.has(name) ? undefined : node);
    if (names.length > 0 && /\d$/.test(child)) numbered++;
    else if (names.length > 0) plain++;
  }
  // Numbered and plain names mixed (conv, conv1) follow no rule.
  if (plain > 0 && numbered > 0) found.clear();
  return found;
});

/**
 * A gap in a Sequential: a child without nodes between two that have some passes its input on (Dropout, Identity).
 * TorchScript and dynamo give a scope only to modules whose forward runs, so a ModuleList has none.
 */
function readVanished(tree: ModuleTree, path: string): ModuleReading | undefined {
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
  return source?.last && readNode(source.last, why);
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
  const value = node.inputs[0] && beforeRounding(node.inputs[0]);
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
    return (
      first !== undefined &&
      first.index > module.last.index &&
      module.last.outputs.some((output) => output?.uses.includes(first))
    );
  });
}

/** An operation outside modules: `layer1.0.add`, `flatten`, `add_1` for the second one. */
function readOutsideModules(tree: ModuleTree, path: string): ModuleReading | undefined {
  const [parent, atom] = splitPath(path);
  const module = tree.modules.get(parent);
  const reading = module && readOperation(tree, module, atom);
  if (!reading) return undefined;
  if (reading.kind === 'unsure') return reading;
  const where = parent === '' ? 'the model' : `module "${parent}"`;
  return readNode(reading.node, `operation "${atom}" in ${where}`);
}
