/**
 * The parameters of a graph: which inputs of which nodes are parameters of the source network, under which names, and in which form.
 * Only names and structure are read, no values.
 */
import { oncePer } from '../../../base/once-per.js';
import { isFloatType } from '../../file/wire/schema.js';
import type { Graph, Node, Value } from '../graph.js';
import { nodeRoles } from '../roles.js';
import { firstPlaceOf, MAX_DEPTH, placeOf, splitPath } from '../module-path.js';
import { foldedLayer, type FoldedLayer } from './folded-layer.js';
import { mayHoldParameter } from '../names/operations.js';
import {
  calledOnce,
  isMadeUp,
  isPaddleName,
  parameterNames,
  readSpelled,
  spellForTorch,
  statesNone,
  torchParameterAt,
} from './parameter-names.js';
import { holdsSizes, isOwnLayer, isWeightSlot, RUNNING_STATISTICS, slotName } from './parameter-slots.js';
import { isIdentity, siteOf, type Site } from './site.js';

/**
 * What a tensor of the file is to the network. It can be learnable. It can be a buffer, such as running statistics and integers of a
 * module. Or it is a constant of the network, or what an exporter computed of parameters.
 */
export type TensorKind = 'parameter' | 'buffer' | 'constant';

/** A place in the graph where a parameter is read. */
export interface ParameterUse {
  /** The operator that uses it. */
  readonly node: Node;
  readonly site: Site;
  /** Names of the parameter, likeliest first; at least one. */
  readonly names: readonly string[];
  /** The order in which the parameter's axes lie in the file; null as in torch. */
  readonly perm: readonly number[] | null;
  readonly kind: 'parameter' | 'buffer';
  /** Whether the name is a guess, because the file's own is made up. */
  readonly isGuess: boolean;
  /** The name as dynamo's exporter spelled it in the torch call, where the file's own name does not tell it. */
  readonly spelled: string | undefined;
  /** Whether the file tells which of several merged parameters this is: by an Identity, by the torch call, by the layer. */
  readonly isCertain: boolean;
}

/** An initializer that nothing names: a constant, or what an exporter computed of parameters. */
export interface UnnamedSite extends Site {
  /** The path of the module that reads it. */
  readonly module: string | undefined;
  /** The operator that uses it, and its input. */
  readonly reader: { readonly node: Node; readonly slot: number };
}

/** The parameters of a graph, in execution order. */
export interface GraphParameters {
  readonly uses: readonly ParameterUse[];
  readonly folded: readonly FoldedLayer[];
  /** Where initializers of floats are read that nothing names. */
  readonly unnamed: readonly UnnamedSite[];
  /** What each tensor of the file is that a node reads; tensors that are not here are constants. */
  readonly kinds: ReadonlyMap<Value, TensorKind>;
  /**
   * By the paths of modules: constants that they read and the exporter computed, perhaps of a parameter of the module. `x ** p` and
   * `x ** (1 / p)` are `p` and such a constant.
   */
  readonly computing: ReadonlyMap<string, ReadonlySet<Value>>;
  /** The paths of modules that run a node themselves. */
  readonly running: ReadonlySet<string>;
}

/** The parameters of a graph; found on first use. */
export const findParameters: (graph: Graph) => GraphParameters = oncePer(searchGraph);

function searchGraph(graph: Graph): GraphParameters {
  const isTorch = graph.nodes.some((node) => placeOf(node) !== undefined);
  const statesCalls = graph.nodes.some(({ scanned }) => (scanned.torchParameters?.length ?? 0) > 0);
  const uses = new Map<string, ParameterUse>();
  const folded: FoldedLayer[] = [];
  const unnamed: UnnamedSite[] = [];
  const computing = new Map<string, Set<Value>>();
  const running = new Set(graph.nodes.flatMap((node) => moduleOf(node) ?? []));
  const reads = countReads(graph);
  for (const node of graph.nodes) {
    if (isIdentity(node)) continue;
    const layer = isTorch ? foldedLayer(node) : undefined;
    if (layer) folded.push(layer);
    node.inputs.forEach((_, slot) => {
      const site = siteOf(node, slot);
      if (!site || (layer && slot > 0)) return;
      // A torch call that states no parameter reads what the exporter computed of one.
      const isComputedHere = statesCalls && statesNone(node, slot);
      const use = isComputedHere
        ? undefined
        : readUse(node, slot, site, isTorch && reads.get(site.initializer)!);
      const key = `${site.node.index} ${site.slot}`;
      const { name, initializer } = site.initializer;
      const module = moduleOf(node);
      if (use) uses.set(key, uses.get(key) ?? use);
      else if (isFloatType(initializer!.elemType)) unnamed.push({ ...site, module, reader: { node, slot } });
      else return;
      // A tensor of the model's own code may go by a name that says that it was computed.
      const isUnnamed = !use || use.names[0] === name;
      const isMade = (isUnnamed && mayHoldParameter(name)) || (isComputedHere && isWeightSlot(node, slot));
      if (isTorch && module !== undefined && isMade) addTo(computing, calledOnce(module), site.initializer);
    });
  }
  const ofNetwork = withFrozenNorms(withBuffers([...uses.values()], graph), graph);
  const found = { uses: ofNetwork, folded, unnamed };
  return { ...found, kinds: kindsOf(found, isTorch), computing, running };
}

/** Makes buffers of what torch calls state as buffers and never as parameters: floats that the network holds and does not learn. */
function withBuffers(uses: readonly ParameterUse[], { nodes }: Graph): readonly ParameterUse[] {
  const buffers = new Set(nodes.flatMap(({ scanned }) => scanned.torchBuffers));
  if (buffers.size === 0) return uses;
  for (const { torchParameters = [], torchBuffers } of nodes.map(({ scanned }) => scanned))
    for (const name of torchParameters) if (!torchBuffers.includes(name)) buffers.delete(name);
  return uses.map((use) => (buffers.has(spellForTorch(use.names[0]!)) ? { ...use, kind: 'buffer' } : use));
}

/**
 * Makes buffers of what torchvision's FrozenBatchNorm2d holds. Its weight and bias never train. The graph computes a factor and a summand
 * of them and of the running statistics, without the data.
 */
function withFrozenNorms(uses: readonly ParameterUse[], graph: Graph): readonly ParameterUse[] {
  const roles = nodeRoles(graph);
  const frozen = new Set<string>();
  for (const { node, names } of uses) {
    const [module, attribute] = splitPath(names[0]!);
    if (attribute === 'running_mean' && roles.get(node) === 'constant') frozen.add(module);
  }
  return uses.map((use) =>
    frozen.has(splitPath(use.names[0]!)[0]) && roles.get(use.node) === 'constant'
      ? { ...use, kind: 'buffer' }
      : use,
  );
}

function addTo(computing: Map<string, Set<Value>>, module: string, constant: Value): void {
  computing.set(module, (computing.get(module) ?? new Set()).add(constant));
}

/** An initializer that several nodes read in different roles is a parameter if it is one anywhere. */
function kindsOf(
  { uses, folded, unnamed }: Omit<GraphParameters, 'kinds' | 'computing' | 'running'>,
  isTorch: boolean,
): Map<Value, TensorKind> {
  const kinds = new Map<Value, TensorKind>();
  const add = ({ initializer }: Site, kind: TensorKind): void => {
    const before = kinds.get(initializer);
    if (before === undefined || before === 'constant' || kind === 'parameter') kinds.set(initializer, kind);
  };
  for (const { site, kind } of uses) add(site, kind);
  for (const { weight, bias } of folded) {
    add(weight, 'parameter');
    // The exporter computed it of the norm, and of a bias if there was one.
    if (bias) add(bias, 'constant');
  }
  // A Constant node of torch holds what the code states, such as the ones of a norm without a weight.
  for (const site of unnamed) {
    const isWeight = isWeightSlot(site.node, site.slot) && !(isTorch && site.initializer.producer);
    add(site, isWeight ? 'parameter' : 'constant');
  }
  return kinds;
}

/** The unnamed tensors that hold numbers of the network, each once: not a lone number, which is an epsilon or a factor. */
export function unnamedTensors({ uses, folded, unnamed }: GraphParameters): UnnamedSite[] {
  const seen = new Set(uses.map(({ site }) => site.initializer));
  for (const { weight, bias } of folded)
    for (const site of [weight, bias]) if (site) seen.add(site.initializer);
  return unnamed.filter(({ node, slot, initializer }) => {
    const count = initializer.initializer!.dims.reduce((product, size) => product * size, 1);
    const isListed = !seen.has(initializer) && (isWeightSlot(node, slot) ? count > 0 : count > 1);
    if (!isListed || holdsSizes(node, slot)) return false;
    seen.add(initializer);
    return true;
  });
}

/** The module that reads a parameter: its own, or for items of a ParameterList or a ParameterDict, which run nothing, the one around. */
export function readerOf(name: string, parameters: GraphParameters): string {
  const [module, attribute] = splitPath(name);
  return /weight|bias/.test(attribute) ? module : runningModule(module, parameters);
}

/** The innermost module around a path that runs a node itself, or the model. */
export function runningModule(path: string, { running }: GraphParameters): string {
  let module = path.split('.', MAX_DEPTH).join('.');
  while (module !== '' && !running.has(module)) [module] = splitPath(module);
  return module;
}

/** The path of the module that runs a node. */
export function moduleOf(node: Node): string | undefined {
  return (firstPlaceOf(node) ?? placeOf(node))?.path;
}

/** How an initializer is read. */
interface Reads {
  /** By several inputs, directly or behind Identity nodes. */
  readonly isShared: boolean;
  /** By some of them behind Identity nodes, which have the names of merged parameters: so the others read the parameter that the initializer is named after. */
  readonly isSplit: boolean;
}

function countReads(graph: Graph): ReadonlyMap<Value, Reads> {
  const reads = new Map<Value, Reads>();
  for (const node of graph.nodes) {
    if (isIdentity(node)) continue;
    for (const slot of node.inputs.keys()) {
      const site = siteOf(node, slot);
      if (!site) continue;
      const before = reads.get(site.initializer);
      const isSplit = node.inputs[slot] !== site.initializer || before?.isSplit === true;
      reads.set(site.initializer, { isShared: before !== undefined, isSplit });
    }
  }
  return reads;
}

/** @param torch - False for a file that was not exported from torch. */
function readUse(node: Node, slot: number, site: Site, torch: false | Reads): ParameterUse | undefined {
  const { elemType, dims } = site.initializer.initializer!;
  const attribute = slotName(node, slot);
  const kind = RUNNING_STATISTICS.has(attribute ?? '') || !isFloatType(elemType) ? 'buffer' : 'parameter';
  // Exporters name the outputs of Identity nodes after the parameters that share an initializer.
  const { name } = torch && torch.isShared ? node.inputs[slot]! : site.initializer;
  const underOwnName: ParameterUse = {
    node,
    site,
    names: [site.initializer.name],
    perm: null,
    kind,
    isGuess: false,
    spelled: undefined,
    isCertain: true,
  };
  if (!torch) {
    // Other exporters' names say nothing, so only the operator tells weights from constants.
    return (attribute !== undefined || isPaddleName(site.initializer.name)) && isFloatType(elemType)
      ? underOwnName
      : undefined;
  }
  const written = isMadeUp(name) ? undefined : name;
  const isGuess = written === undefined;
  const module = moduleOf(node);
  const isMatrix = isMatrixOfProduct(node, slot, dims);
  // The model's own code runs it, so no module has a name for its weight.
  if (isGuess && module === '' && !isMatrix && isWeightSlot(node, slot) && isFloatType(elemType))
    return underOwnName;
  if (isGuess && !(isFloatType(elemType) && isMatrix)) return undefined;
  const guesses = parameterNames(node, slot, written, module, torch.isShared);
  const spelled = isGuess || torch.isShared ? torchParameterAt(node, slot) : undefined;
  const stated = spelled === undefined ? undefined : readSpelled(spelled, guesses, module);
  const names = stated === undefined ? guesses : [stated];
  if (names.length === 0) return undefined;
  const isNamed = torch.isSplit && written !== undefined;
  const isCertain = !torch.isShared || isNamed || spelled !== undefined || isOwnLayer(node);
  return { node, site, names, perm: isGuess ? permOf(node) : null, kind, isGuess, spelled, isCertain };
}

/** Whether an input is the matrix of a linear layer: exporters rename it when they transpose it. */
function isMatrixOfProduct({ opType }: Node, slot: number, dims: readonly number[]): boolean {
  return (opType === 'MatMul' || opType === 'Gemm') && slot === 1 && dims.length === 2;
}

function permOf({ opType, scanned }: Node): readonly number[] | null {
  return opType === 'Gemm' && scanned.layout.get('transB') === 1 ? null : [1, 0];
}
