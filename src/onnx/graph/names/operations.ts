/**
 * Torch's names for operations outside modules, as torchvision lists them (`layer1.0.add`, `flatten`), and the nodes they became.
 * torchvision numbers equal operations of a module. An exporter may fold some of them away, or make the same operator of others. So a node
 * is named only where nothing in its module can have shifted the count.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Node } from '../graph.js';
import type { Module, ModuleTree } from './module.js';

/** ONNX operators by torch operation; the names that dynamo gives them in FX are torch's own unless stated here. */
export const TORCH_OPERATIONS: Readonly<Record<string, readonly string[]>> = {
  add: ['Add'],
  cat: ['Concat'],
  relu: ['Relu'],
  max_pool2d: ['MaxPool'],
  conv2d: ['Conv'],
  flatten: ['Flatten', 'Reshape'],
  reshape: ['Reshape'],
  view: ['Reshape'],
  permute: ['Transpose'],
  transpose: ['Transpose'],
  sub: ['Sub'],
  mul: ['Mul'],
  div: ['Div'],
  truediv: ['Div'],
  matmul: ['MatMul'],
  sigmoid: ['Sigmoid'],
  tanh: ['Tanh'],
  softmax: ['Softmax'],
  hardsigmoid: ['HardSigmoid'],
  hardswish: ['HardSwish'],
  layer_norm: ['LayerNormalization'],
  mean: ['ReduceMean'],
  adaptive_avg_pool2d: ['GlobalAveragePool', 'AveragePool', 'ReduceMean'],
  avg_pool2d: ['AveragePool'],
  pad: ['Pad'],
  expand: ['Expand'],
  chunk: ['Split'],
};
/** Operations of which a module often runs several; all others are named only where there is one. */
const COUNTED = new Set(['add', 'cat', 'relu', 'max_pool2d']);
/** What `x[…]`, `chunk` and the like become: too many forms to tell apart. */
const PICKING = new Set(['Gather', 'Slice', 'Split', 'Squeeze', 'Unsqueeze', 'GatherElements', 'GatherND']);
/** Parts of one torch call that TorchScript spells out (gelu, silu, group_norm, layer_norm, normalize): they shift counts. */
const SPELLED_OUT = new Set('Erf Sigmoid InstanceNormalization Pow Sqrt ReduceL2 Tanh Softplus'.split(' '));

/** Torch operations by the ONNX operator that they may become. */
const OPERATIONS = new Map<string, string[]>();
for (const [operation, operators] of Object.entries(TORCH_OPERATIONS)) {
  for (const operator of operators)
    OPERATIONS.set(operator, [...(OPERATIONS.get(operator) ?? []), operation]);
}

/** The torch operations that the nodes of a module may have been. */
export function operationsIn({ own, aside }: Module): ReadonlySet<string> {
  const operators = new Set([...own, ...aside].map((node) => node.opType));
  return new Set([...operators].flatMap((operator) => OPERATIONS.get(operator) ?? []));
}

/** What the name of an operation in a module, or of a layer, denotes. */
export type NodeReading =
  | { readonly kind: 'node'; readonly node: Node }
  /** Several nodes fit, and the file does not say which one is meant. */
  | { readonly kind: 'unsure'; readonly why: string; readonly candidates: readonly Node[] };

/** Reads `add_1` in a module: the second `+`. Undefined if the module has no such operation. */
export function readOperation(tree: ModuleTree, module: Module, atom: string): NodeReading | undefined {
  const match = /^([a-z]\w*?)(?:_(\d+))?$/.exec(atom);
  const operation = match?.[1] ?? '';
  const position = Number(match?.[2] ?? 0);
  if (operation === 'getitem') return readPicking(module, atom);
  if (!Object.hasOwn(TORCH_OPERATIONS, operation)) return undefined;
  const { nodes, unsure } = callsOfOperation(tree, module, operation);
  const node = nodes[position];
  if (!node) return undefined;
  const isUnknown = nodes.length > 1 && nodes.some((one) => tree.dropped.has(one) && one.name === '');
  const why = isUnknown
    ? 'a quantizer dropped activations, and not each of them needs to be such'
    : (unsure ?? (operation === 'relu' ? whyLost(tree, nodes.slice(0, position + 1)) : undefined));
  return why === undefined ? { kind: 'node', node } : { kind: 'unsure', why, candidates: nodes };
}

/** Exporters compute equal ReLUs of one tensor once, and dynamo's optimiser merges those in a row: torch counts each. */
function whyLost(tree: ModuleTree, nodes: readonly Node[]): string | undefined {
  const isLost =
    tree.scheme === 'dynamo'
      ? nodes.some((node) => hasGapBefore(tree, node))
      : nodes.slice(0, -1).some(({ outputs }) => (outputs[0]?.uses.length ?? 0) > 1);
  return isLost ? 'the exporter may have merged equal ones before it' : undefined;
}

/** The names of all calls in FX. */
const fxNames = oncePer(
  ({ places }: ModuleTree) => new Set(Array.from(places.values(), ({ operation }) => operation)),
);

/**
 * Whether the call right before a node's own is missing in the file. dynamo numbers the calls of an operation over the whole network:
 * `pad`, `pad_1`, …
 */
export function hasGapBefore(tree: ModuleTree, node: Node): boolean {
  const [, base = '', number] = /^(.*?)(?:_(\d+))?$/.exec(tree.places.get(node)!.operation)!;
  if (number === undefined) return false;
  return !fxNames(tree).has(number === '1' ? base : `${base}_${Number(number) - 1}`);
}

function readPicking(module: Module, atom: string): NodeReading | undefined {
  const candidates = module.own.filter((node) => PICKING.has(node.opType));
  if (candidates.length === 0) return undefined;
  return {
    kind: 'unsure',
    why: `indexing takes many forms in ONNX, so the file does not say which node "${atom}" is`,
    candidates,
  };
}

interface Calls {
  readonly nodes: readonly Node[];
  /** Why the nodes cannot be told apart by their position. */
  readonly unsure: string | undefined;
}

const knownCalls = oncePer(() => new Map<string, Calls>());

/** The nodes that the calls of one torch operation in a module became, one per call, in order. */
export function callsOfOperation(tree: ModuleTree, module: Module, operation: string): Calls {
  const known = knownCalls(module);
  let calls = known.get(operation);
  if (!calls) known.set(operation, (calls = findCalls(tree, module, operation)));
  return calls;
}

function findCalls(tree: ModuleTree, module: Module, operation: string): Calls {
  const operators = TORCH_OPERATIONS[operation]!;
  const isSuch = (node: Node): boolean => operators.includes(node.opType) && isOfRank(node, operation);
  const all = (operation === 'expand' ? [...module.own, ...module.aside] : module.own).filter(isSuch);
  const siblings = new Set(module.own);
  const named = tree.scheme === 'dynamo' ? all.filter((node) => isFxName(tree, node, operation)) : all;
  const nodes = onePerCall(
    tree,
    COUNTED.has(operation) ? named.filter((node) => !isBiasOfLinear(node, siblings)) : named,
  );
  return { nodes, unsure: whyUnsure(tree, module, operation, nodes, isSuch) };
}

/** A convolution of images has a weight of four axes. */
function isOfRank({ inputs }: Node, operation: string): boolean {
  return operation !== 'conv2d' || inputs[1]?.initializer?.dims.length === 4;
}

function whyUnsure(
  tree: ModuleTree,
  module: Module,
  operation: string,
  nodes: readonly Node[],
  isSuch: (node: Node) => boolean,
): string | undefined {
  const where = module.path === '' ? 'the model' : `"${module.path}"`;
  if (module.own.some(readsFolded))
    return `the exporter computed a constant that ${where} reads, and torch counts the operations that made it`;
  if (!COUNTED.has(operation)) {
    const others = [...module.own, ...module.aside].filter(isSuch);
    const many = `${where} has several nodes that "${operation}" may mean`;
    return nodes.length > 1 || others.some((node) => !nodes.includes(node) && operation !== 'expand')
      ? many
      : undefined;
  }
  if (tree.scheme === 'torchscript' && module.own.some((node) => SPELLED_OUT.has(node.opType))) {
    return `in ${where} the exporter spelled out functions, whose parts cannot be distinguished from "${operation}"`;
  }
  if (operation === 'cat') {
    const isNested = tree.scheme === 'torchscript' && nodes.some(mayBeNestedCat);
    return isNested ? `the exporter may have merged several torch.cat of ${where} into one node` : undefined;
  }
  // Concat of sizes is the exporter's own.
  return module.aside.some(isSuch)
    ? `torch counts the operations on parameters and sizes of ${where}, too`
    : undefined;
}

/** Names that TorchScript gives to constants, by the operator that reads them. */
const FOLDED = /^onnx::(?!(?:Conv|ConvTranspose|Gemm|GRU|LSTM|MatMul|RNN)_)/;

/** dynamo's exporter calls a constant that it computed by the torch operation. */
const OPERATION =
  /^(abs|add|arange|cat|clone|cos|div|exp|expand|full|getitem|log|logit|mul|neg|ones|permute|pow|reciprocal|relu|reshape|rsqrt|select|sigmoid|sin|slice|softmax|softplus|sqrt|squeeze|stack|sub|sum|tanh|to|transpose|unsqueeze|view|zeros|scalar_tensor\w*|(min|max)_val_cast|\w+_default)(_\d+)?$/;

/** Whether a tensor is called by the operation that dynamo's exporter computed it with. */
export function isOperation(name: string): boolean {
  return OPERATION.test(name);
}

/** Operations that make a tensor of numbers of the code alone. */
const FACTORY = /^(arange|eye|full|linspace|ones|scalar_tensor|zeros)(_like)?(_default)?(_\d+)?$/;

/** Whether a constant's name says that the exporter computed it. The weights of layers it only moves, or folds norms into them. */
export function isComputed(name: string): boolean {
  return FOLDED.test(name) || isOperation(name);
}

/** Whether a constant's name says that the exporter made it of numbers of the code alone. */
export function isOfCode(name: string): boolean {
  return FACTORY.test(name);
}

/** Whether a constant's name says that the exporter computed it, and leaves open that a parameter went into it. */
export function mayHoldParameter(name: string): boolean {
  return isComputed(name) && !isOfCode(name);
}

/** Whether a node reads a constant that the exporter computed, perhaps of parameters. */
function readsFolded({ inputs }: Node): boolean {
  return inputs.some((input) => input?.initializer && isComputed(input.name));
}

/** FX names that dynamo's decompositions give to torch operations. */
const FX_NAMES: Readonly<Record<string, readonly string[]>> = {
  flatten: ['view', 'flatten', 'reshape', '_unsafe_view'],
  reshape: ['view', 'reshape', '_unsafe_view'],
  truediv: ['div'],
  adaptive_avg_pool2d: ['mean', 'adaptive_avg_pool2d'],
  max_pool2d: ['max_pool2d', 'max_pool2d_with_indices', 'getitem'],
};

function isFxName(tree: ModuleTree, node: Node, operation: string): boolean {
  const name = tree.places.get(node)!.operation.replace(/_\d+$/, '');
  return (FX_NAMES[operation] ?? [operation]).includes(name);
}

/** Dynamo marks the nodes of one call by the same FX name. */
function onePerCall(tree: ModuleTree, nodes: readonly Node[]): Node[] {
  if (tree.scheme !== 'dynamo') return [...nodes];
  return [...new Map(nodes.map((node) => [tree.places.get(node)!.operation, node])).values()];
}

/** `F.linear` becomes MatMul and Add; that Add is no `+` of the source. */
function isBiasOfLinear(node: Node, siblings: ReadonlySet<Node>): boolean {
  const isProduct = (producer: Node | undefined): boolean =>
    producer?.opType === 'MatMul' && siblings.has(producer);
  return node.opType === 'Add' && node.inputs.some((input) => isProduct(input?.producer));
}

/**
 * Whether a Concat may be two nested `torch.cat` that TorchScript merged, in which case torch's numbering of them
 * is lost: some, not all, of its inputs are branches off the same tensor.
 */
function mayBeNestedCat(node: Node): boolean {
  const sources = node.inputs.map((input) => {
    let value = input;
    for (let hops = 0; hops < 4 && value?.producer; hops++) {
      const { producer } = value;
      value = producer.inputs[0];
      if (producer.opType === 'Conv') return value?.name;
    }
    return value?.name;
  });
  const distinct = new Set(sources).size;
  return distinct > 1 && distinct < sources.length;
}
