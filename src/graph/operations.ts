/**
 * Torch's names for operations outside modules, as torchvision lists them (`layer1.0.add`, `flatten`), and the
 * ONNX operators they become.
 */
import type { Node } from './graph.js';
import type { Module, ModuleTree } from './module-tree.js';

const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  add: ['Add'],
  sub: ['Sub'],
  mul: ['Mul'],
  div: ['Div'],
  truediv: ['Div'],
  matmul: ['MatMul'],
  cat: ['Concat'],
  flatten: ['Flatten', 'Reshape'],
  reshape: ['Reshape'],
  view: ['Reshape'],
  permute: ['Transpose'],
  transpose: ['Transpose'],
  relu: ['Relu'],
  sigmoid: ['Sigmoid'],
  tanh: ['Tanh'],
  softmax: ['Softmax'],
  hardsigmoid: ['HardSigmoid'],
  hardswish: ['HardSwish'],
  mean: ['ReduceMean'],
  adaptive_avg_pool2d: ['GlobalAveragePool', 'AveragePool'],
  avg_pool2d: ['AveragePool'],
  max_pool2d: ['MaxPool'],
  pad: ['Pad'],
  expand: ['Expand'],
};

/** Splits `add_1` into the operation and its position among equal ones: `["add", 1]`; undefined if torch has no such one. */
export function parseOperation(atom: string): [operation: string, position: number] | undefined {
  const match = /^(.*?)(?:_(\d+))?$/.exec(atom);
  const operation = match?.[1] ?? '';
  return Object.hasOwn(OPERATORS, operation) ? [operation, Number(match?.[2] ?? 0)] : undefined;
}

/** All of torch's operation names known here. */
export const OPERATIONS: readonly string[] = Object.keys(OPERATORS);

const cache = new WeakMap<Module, Map<string, readonly Node[]>>();

/** The nodes that the calls of one torch operation in a module became, one per call, in order. */
export function callsOfOperation(tree: ModuleTree, module: Module, operation: string): readonly Node[] {
  let known = cache.get(module);
  if (!known) cache.set(module, (known = new Map()));
  let nodes = known.get(operation);
  if (!nodes) known.set(operation, (nodes = findCalls(tree, module, operation)));
  return nodes;
}

function findCalls(tree: ModuleTree, module: Module, operation: string): Node[] {
  const siblings = new Set(module.own);
  const nodes = module.own.filter((node) => {
    if (!OPERATORS[operation]?.includes(node.opType)) return false;
    const role = tree.roles.get(node);
    if (operation === 'expand' ? role === 'constant' : role !== 'data') return false;
    if (operation === 'flatten' && node.opType === 'Reshape') return hasRank(node, 2);
    return operation !== 'add' || !isBiasOfLinear(node, siblings);
  });
  if (tree.scheme !== 'dynamo') return nodes;
  // Dynamo marks the nodes of one call by the same FX name.
  return [...new Map(nodes.map((node) => [tree.places.get(node)!.operation, node])).values()];
}

function hasRank(node: Node, rank: number): boolean {
  const type = node.outputs[0]?.type;
  return type?.kind === 'tensor' && type.dims?.length === rank;
}

/** `F.linear` becomes MatMul and Add; that Add is no `+` of the source. */
function isBiasOfLinear(node: Node, siblings: ReadonlySet<Node>): boolean {
  return node.inputs.some((input) => input?.producer?.opType === 'MatMul' && siblings.has(input.producer));
}

/**
 * Whether a Concat may be two nested `torch.cat` that TorchScript merged, in which case torch's numbering of them
 * is lost: some, not all, of its inputs are branches off the same tensor.
 */
export function mayBeNestedCat(node: Node): boolean {
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
