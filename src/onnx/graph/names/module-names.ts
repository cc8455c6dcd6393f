/** Module path → value: the right value, or a refusal that names what exists instead. */
import { oncePer } from '../../../base/once-per.js';
import { batchNormNames, isConvolution, mayHoldBatchNorm, weightModules } from './batch-norm.js';
import { floatView } from '../float-view/float-view.js';
import type { FloatView, Held } from '../float-view/view.js';
import { doubtEnd, foldedEnd, losesSum } from './module-ends.js';
import { readStage } from './flat-names.js';
import type { Graph, Node, Value } from '../graph.js';
import { readLayer } from './keras-names.js';
import { joinPath, placeOf, splitPath } from '../module-path.js';
import type { Module, ModuleTree } from './module.js';
import { moduleTree } from './module-tree.js';
import { endAmong } from './parameter-places.js';
import { readOrdinal } from './ordinal-names.js';
import { hasGapBefore, readOperation } from './operations.js';
import { losesBias, losesTurn } from './other-form.js';
import { foldedBehind, readNode, type ModuleReading, type PathReading } from './readings.js';
import { usersOf } from './users.js';
import { readVanished } from './vanished.js';

/**
 * Reads a module path.
 *
 * @param strict - Take the path as the module's true name and leave torchvision's renumbering aside (`module:`).
 * @returns undefined if no module or operation has this name.
 */
export function readModulePath(graph: Graph, path: string, strict: boolean): PathReading | undefined {
  const view = floatView(graph);
  const reading = readInView(view.graph, path, strict);
  return reading && holdReading(view, path, reading);
}

/** What the file has of what a path denotes in its float view. */
function holdReading(view: FloatView, path: string, reading: ModuleReading): PathReading {
  if (reading.kind === 'value') return holdValue(view, path, reading.value, reading.why);
  if (reading.kind === 'unsure') {
    const candidates = reading.candidates.flatMap((node) => node.outputs.flatMap((value) => value ?? []));
    return { ...reading, candidates: candidates.flatMap((value) => view.heldOf(value) ?? []) };
  }
  if (reading.kind === 'clash') {
    const readings = reading.readings.map(({ path: other, value }) => ({
      path: other,
      held: view.heldOf(value),
    }));
    const known = readings.filter((one): one is { path: string; held: Held } => one.held !== undefined);
    return known.length === readings.length ? { kind: 'clash', readings: known } : missing(path);
  }
  return reading;
}

function holdValue(view: FloatView, path: string, value: Value, why: string): PathReading {
  const held = view.heldOf(value);
  return held ? { kind: 'value', ...held, why } : missing(path);
}

/** The refusal of a value that no tensor has. */
function missing(path: string): PathReading {
  const why = `the file computes "${path}" together with what follows it, in whole numbers or in an order of one processor's own`;
  return { kind: 'folded', why };
}

function readInView(graph: Graph, path: string, strict: boolean): ModuleReading | undefined {
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
  if (tree.isStripped) {
    const end = endAmong(tree, last, module.path);
    if (!end) return unplacedBehind(module.path, last);
    last = end;
  }
  return (
    refuseDoubted(tree, module.path) ??
    (tree.isStripped ? undefined : refuseUnplaced(tree, module.path, last)) ??
    refuseEnd(tree, module, last) ??
    mergedBehind(tree, module.path, last) ??
    readNode(last, `last node under module "${module.path}"`)
  );
}

/** Nodes of dynamo's files that a quantizer wrote anew: it drops their places. */
function isUnplaced(tree: ModuleTree, node: Node): boolean {
  const isLost = tree.isStripped || (tree.isRewritten && tree.scheme === 'dynamo');
  return isLost && !tree.places.has(node) && !tree.dropped.has(node) && node.opType !== 'Identity';
}

/** Modules with parameters in such nodes: `layer1.0.conv1.weight` gives `layer1`, `layer1.0` and `layer1.0.conv1`. */
const unplacedModules = oncePer((graph: Graph) => {
  const tree = moduleTree(graph);
  const names = graph.nodes
    .filter((node) => isUnplaced(tree, node))
    .flatMap(({ inputs }) => inputs.flatMap((input) => (input?.initializer ? input.name : [])));
  return new Set(names.flatMap((name) => [...name.matchAll(/\./g)].map(({ index }) => name.slice(0, index))));
});

/** Why a module has no node, though its weights are in the file; `undefined` if that is not so. */
export function hiddenModule(graph: Graph, path: string): string | undefined {
  return unplacedModules(floatView(graph).graph).has(path)
    ? `a quantizer dropped where the nodes of module "${path}" were`
    : undefined;
}

/** The refusal of a module of which only the beginning is left. */
function refuseUnplaced(tree: ModuleTree, path: string, last: Node): ModuleReading | undefined {
  if (!usersOf(last).some((user) => isUnplaced(tree, user))) return undefined;
  return unplacedBehind(path, last);
}

function unplacedBehind(path: string, last: Node): ModuleReading {
  const why = `a quantizer dropped where the nodes after it were, which may belong to "${path}"`;
  return { kind: 'unsure', why, candidates: [last] };
}

/** The refusal of a module behind whose last node a quantizer dropped an activation, which may have been part of it. */
function refuseDoubted(tree: ModuleTree, path: string): ModuleReading | undefined {
  const candidates = tree.doubted.get(path);
  const why = `a quantizer dropped the activation behind the end of "${path}", which may belong to it`;
  return candidates && { kind: 'unsure', why, candidates };
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

const LINEAR: ReadonlySet<string> = new Set(['Add', 'Gemm', 'MatMul', 'Reshape']);

/** Whether a module is nothing but a product with its bias; optimisers name one that they fused as if it were in a module. */
function isLinear(module: Module | undefined): boolean {
  if (!module || [...module.children].some((child) => child !== 'MatMul')) return false;
  return module.own.every(({ opType }) => LINEAR.has(opType));
}

/** Whether an optimiser merged the end of a module into what follows. */
function mergedBehind(tree: ModuleTree, path: string, last: Node): ModuleReading | undefined {
  const taken = losesBias(last)
    ? 'bias'
    : losesSum(tree, path, last)
      ? 'sum at the end'
      : losesTurn(last) && !isLinear(tree.modules.get(path))
        ? 'permutation at the end'
        : undefined;
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
  const isLayer = tree.places.get(first)?.isLayer === true;
  const unplaced = isLayer ? undefined : refuseUnplaced(tree, path, first);
  const merged = unplaced ?? refuseDoubted(tree, path) ?? mergedBehind(tree, path, first);
  if (merged) return merged;
  if (tree.scheme === 'dynamo' && first.opType === 'Pad' && hasGapBefore(tree, first)) {
    const why = `the exporter merged a padding into a convolution, which may be the first call of "${path}"`;
    return { kind: 'folded', why };
  }
  const { length } = module.calls;
  // The network itself may run some of them, and call them as the tensor of the module.
  if (
    length > 1 &&
    !path.includes('.') &&
    module.own.some((node) => tree.dropped.has(node) && placeOf(node) === undefined)
  )
    return {
      kind: 'unsure',
      why: `a quantizer dropped several activations, and the file does not say which of them is "${path}"`,
      candidates: module.own,
    };
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
