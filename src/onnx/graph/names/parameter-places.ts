/**
 * Places of layers in dynamo's files that lost them to a tool. Parameters keep the module's name, and tensors or nodes that of torch's call.
 * Where both say that a node is a layer's own result, it has a place again; a call of another name says that something was folded into it.
 */
import { isUnder, joinPath, type Place } from '../module-path.js';
import type { Graph, Node, Value } from '../graph.js';
import type { ModuleTree } from './module.js';
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
    const rows = isCalled(node, node.opType) ? node : reshaped(node);
    if (!rows || (node.opType === 'LayerNormalization' && !isAlone(node))) continue;
    if (!places.has(rows)) found.set(rows, placeOfLayer(path, rows));
  }
  return found;
}

/** The module that all named parameters of a node belong to. The exporter and optimisers give transposed weights names of their own. */
function moduleOfParameters({ inputs }: Node): string | undefined {
  const stored = inputs.slice(0, 3).filter((input) => input?.initializer && !input.producer);
  const named = stored.filter((input) => !/^val_\d+(?:_weight)?$/.test(input!.name));
  const paths = named.map((input) => /^(.+)\.(?:weight|bias)$/.exec(input!.name)?.[1]);
  const [path] = paths;
  return path !== undefined && paths.every((other) => other === path) ? path : undefined;
}

/** The product whose bias an Add is, if nothing else reads it, and it has a weight of its own. */
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

/** Whether a norm is not part of a module that turns its input, or ends with an activation. */
function isAlone({ inputs: [read], outputs: [value] }: Node): boolean {
  const users = value?.uses ?? [];
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
 * other layers read of it is that value. A sum of a module's result and of what it computed itself before is its own, too.
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
    if (!other || !isInner(other, isInside)) return undefined;
    at = sum!;
  }
  return undefined;
}

const MAX_HOPS = 4;

/** Whether a module computes a value, and reads it itself. */
function isInner({ producer, uses }: Value, isInside: (node: Node) => boolean): boolean {
  return (
    uses.some(isInside) &&
    producer?.inputs.some((input) => input?.producer && isInside(input.producer)) === true
  );
}
