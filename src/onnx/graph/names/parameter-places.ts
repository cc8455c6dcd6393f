/**
 * Places of layers in dynamo's files that lost them to a tool. Parameters keep the module's name, and tensors or nodes that of torch's call.
 * Where both say that a node is a layer's own result, it has a place again; a call of another name says that something was folded into it.
 */
import { isConvolution } from './batch-norm.js';
import { isUnder, joinPath, type Place } from '../module-path.js';
import type { Graph, Node, Value } from '../graph.js';
import type { ModuleTree } from './module.js';
import { isReorder, losesTurn } from './other-form.js';
import { operatorOf } from '../operators/operators.js';

/** How dynamo calls the results of layers, by their operators. */
const CALLS: ReadonlyMap<string, RegExp> = new Map([
  ['Conv', /^conv(?:[123]d|olution)(?:_\d+)?$/],
  ['ConvTranspose', /^conv(?:_transpose[123]d|olution)(?:_\d+)?$/],
  ['Gemm', /^(?:linear|addmm)(?:_\d+)?$/],
  ['MatMul', /^linear(?:_\d+)?$/],
  ['Add', /^linear(?:_\d+)?$/],
  ['LayerNormalization', /^layer_norm(?:_\d+)?$/],
]);

/** The places of nodes without one that are a layer's result. */
export function placeByParameters(graph: Graph, places: ReadonlyMap<Node, Place>): Map<Node, Place> {
  const found = new Map<Node, Place>();
  for (const node of graph.nodes) {
    if (places.has(node) || !CALLS.has(node.opType)) continue;
    const path = moduleOfParameters(node);
    const product = node.opType === 'Add' ? productBefore(node) : node;
    if (path === undefined || !product) continue;
    if (isConvolution(node) && isFolded(node, places))
      found.set(node, { ...placeOfLayer(path, node), isFolded: true });
    const rows = isCalled(node, node.opType) ? node : reshaped(node);
    if (!rows || (node.opType === 'LayerNormalization' && !isAlone(node))) continue;
    if (!places.has(rows)) found.set(rows, placeOfLayer(path, rows));
  }
  return found;
}

/**
 * The module that all named parameters of a node belong to. The exporter and optimisers give transposed weights new names. Optimisers
 * share equal parameters: such a name is that of any of the modules.
 */
function moduleOfParameters({ inputs }: Node): string | undefined {
  const stored = inputs.slice(0, 3).filter((input) => input?.initializer && !input.producer);
  const named = stored.filter((input) => !/^val_\d+(?:_weight)?$|_bias_reshape_output$/.test(input!.name));
  const isShared = named.some((input) => input!.uses.filter(({ opType }) => opType !== 'Reshape').length > 1);
  if (isShared) return undefined;
  const paths = named.map((input) => /^(.+)\.(?:weight|bias|weight_bias)$/.exec(input!.name)?.[1]);
  const [path] = paths;
  return path !== undefined && paths.every((other) => other === path) ? path : undefined;
}

/** The product whose bias an Add is, if nothing else reads it, and it has its own weight. */
function productBefore({ inputs }: Node): Node | undefined {
  const product = inputs.find((input) => input?.producer)?.producer;
  return product?.opType === 'MatMul' &&
    product.inputs[1]?.initializer &&
    product.outputs[0]?.uses.length === 1
    ? product
    : undefined;
}

/** Whether a node's tensor, or its own name where that is an output of the graph, is that of such a call. */
function isCalled({ name, outputs: [value] }: Node, opType: string): boolean {
  const call = CALLS.get(opType)!;
  if (!value) return false;
  const own = /^(?:fused )?node_([a-z]\w*?)(?:_(?:MatMul|Add))?$/.exec(name)?.[1] ?? '';
  return call.test(value.name) || (value.uses.length === 0 && call.test(own));
}

/** The Reshape that gives the rows of a Gemm their dims back, as optimisers write a product in three dimensions. */
function reshaped({ opType, outputs: [value] }: Node): Node | undefined {
  const [user, ...others] = value?.uses ?? [];
  const isRows = opType === 'Gemm' && others.length === 0 && user?.opType === 'Reshape';
  return isRows && isCalled(user, 'Gemm') ? user : undefined;
}

/** What dynamo calls the result of a norm. */
const NORM = /^(?:getitem|_?(?:native_)?batch_norm\w*?)(?:_\d+)?$/;

/**
 * Whether a convolution holds the value of the norm after it. An activation behind it may be part of the norm's module, unless it has a place
 * of its own.
 */
function isFolded({ outputs: [value] }: Node, places: ReadonlyMap<Node, Place>): boolean {
  if (!value || !NORM.test(value.name)) return false;
  return value.uses.every((user) => places.has(user) || !operatorOf(user)?.isActivation);
}

/** Whether a norm is not part of a module that turns its input, or ends with an activation. */
function isAlone(node: Node): boolean {
  const [read] = node.inputs;
  const users = node.outputs[0]?.uses ?? [];
  if (losesTurn(node) || (read?.producer && isReorder(read.producer))) return false;
  const isTurned =
    read?.producer?.opType === 'Transpose' || users.some(({ opType }) => opType === 'Transpose');
  return !isTurned && !users.some((user) => operatorOf(user)?.isActivation);
}

function placeOfLayer(path: string, { outputs: [value] }: Node): Place {
  const scopes: string[] = [''];
  for (const atom of path.split('.')) scopes.push(joinPath(scopes.at(-1)!, atom));
  return { scheme: 'dynamo', path, scopes, operation: value?.name ?? '', isLayer: true };
}

/**
 * The last node of a module whose nodes were found by parameters: what lies between layers has no place. A module gives one value, so what
 * other layers read of it is that value. A sum of a module's result and of what it computed itself before is its own, too; one with what the
 * norm in front of it read is not.
 */
export function endAmong(tree: ModuleTree, last: Node, path: string): Node | undefined {
  const isPlaced = (node: Node): boolean => tree.places.has(node) && !tree.dropped.has(node);
  const isInside = (node: Node): boolean => isPlaced(node) && isUnder(tree.places.get(node)!.path, path);
  for (let at = last, hops = 0; hops < MAX_HOPS; hops++) {
    const users = at.outputs.flatMap((value) => value?.uses ?? []);
    if (users.length === 0 || users.some((user) => isPlaced(user) && !isInside(user))) return at;
    const [sum, ...others] = users;
    if (others.length > 0 || sum!.opType !== 'Add') return undefined;
    const other = sum!.inputs.find((value) => value?.producer !== at);
    if (!other) return undefined;
    if (isAround(other, isPlaced, isInside)) return at;
    if (!isInner(other, isInside)) return undefined;
    at = sum!;
  }
  return undefined;
}

const MAX_HOPS = 4;

/** Whether a value goes around a module: a norm in front of the module reads it, and the module what that gives. */
function isAround(
  { uses }: Value,
  isPlaced: (node: Node) => boolean,
  isInside: (node: Node) => boolean,
): boolean {
  const reaches = (node: Node, hops: number): boolean =>
    isInside(node) ||
    (hops > 0 &&
      !isPlaced(node) &&
      node.outputs.some((output) => output?.uses.some((user) => reaches(user, hops - 1))));
  const norms = uses.filter(({ opType }) => opType === 'LayerNormalization').filter(isPlaced);
  return norms.some((norm) => !isInside(norm) && norm.outputs[0]?.uses.some((user) => reaches(user, 2)));
}

/** Whether a module computes a value, and reads it itself. */
function isInner({ producer, uses }: Value, isInside: (node: Node) => boolean): boolean {
  return (
    uses.some(isInside) &&
    producer?.inputs.some((input) => input?.producer && isInside(input.producer)) === true
  );
}
