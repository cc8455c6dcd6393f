/** Finds what a rewrite can compute in 8 bits with fixed scales: layers with constant weights, and sums that read what such layers read. */
import type { Attribute } from '../../../../onnx/file/scan/attributes.js';
import { ELEMENT_TYPE } from '../../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../../onnx/graph/roles.js';
import { operatorOf } from '../../../../onnx/graph/operators/operators.js';
import { editOf, type Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { findConstant, isConstant, type AttributesOf, type LayerConstant } from '../constants.js';
import { findNorm, type LayerNorm } from './norms.js';

/** A tensor that a node reads. */
export interface Read {
  readonly node: Node;
  readonly slot: number;
  /** The name of the tensor in the rewritten graph. */
  readonly tensor: string;
}

/** A convolution or a product with constant weights. Its activations come from slot 0. */
export interface Layer extends Read {
  readonly weights: LayerConstant;
  /** The axis of the output channels in the weights as the node reads them. */
  readonly axis: number;
  /** A bias with one element for each output channel. */
  readonly bias: LayerConstant | undefined;
  /** What the weights and the bias take in. */
  readonly norm: LayerNorm | undefined;
  /** What the layer and its norm give. */
  readonly result: Value;
}

/** The name under which the bias of a layer is written; undefined if it has no bias. */
export function biasValue({ bias, norm }: Layer): Value | undefined {
  return bias?.value ?? norm?.constants[1]!.value;
}

/** What can be computed in 8 bits. */
export interface LayerSearch {
  /** In execution order. */
  readonly layers: readonly Layer[];
  /**
   * The reads of sums of two tensors that convolutions compute or read, and of pools behind convolutions. With them in 8 bits, nobody
   * needs the float32 form of what the convolution computes, and engines write 8 bits right behind it.
   */
  readonly joins: readonly (readonly Read[])[];
  /** Other nodes with constant weights, which stay in float32, with the reason. */
  readonly kept: ReadonlyMap<Node, string>;
}

/** Finds the layers, in execution order. */
export function findLayers(rewrite: Rewrite, attributesOf: AttributesOf): LayerSearch {
  const { cut } = rewrite;
  const layers: Layer[] = [];
  const kept = new Map<Node, string>();
  for (const node of cut.graph.nodes) {
    if (!cut.nodes.has(node) || node.domain !== '' || !WEIGHTED.has(node.opType)) continue;
    const found = readLayer(rewrite, node, attributesOf);
    if (typeof found === 'string') kept.set(node, found);
    else if (found) layers.push(found);
  }
  const convolutions = new Set(
    layers.flatMap(({ node, norm }) => (isProduct(node) ? [] : norm ? [node, norm.node] : [node])),
  );
  const roles = nodeRoles(cut.graph);
  const isFixed = (value: Value): boolean =>
    value.producer ? roles.get(value.producer) === 'constant' : isConstant(value);
  const joins = [...cut.nodes].flatMap((node) => {
    const isJoin = node.domain === '' && JOINS.get(node.opType)?.(node, convolutions) === true;
    return isJoin && node.inputs.every((value) => value && !isFixed(value)) ? [readAll(rewrite, node)] : [];
  });
  return { layers, joins, kept };
}

type IsJoin = (node: Node, convolutions: ReadonlySet<Node>) => boolean;

/** Nodes without weights that read 8 bits for the sake of the convolutions before them. */
const JOINS: ReadonlyMap<string, IsJoin> = new Map([
  ['Add', isSum],
  ['AveragePool', isLastPool],
  ['GlobalAveragePool', isLastPool],
]);

/** Whether a sum reads tensors of convolutions. */
function isSum({ inputs }: Node, convolutions: ReadonlySet<Node>): boolean {
  return inputs.some((value) => {
    const isMade = value?.producer && convolutions.has(value.producer);
    return isMade || value?.uses.some((reader) => reader.inputs[0] === value && convolutions.has(reader));
  });
}

/** Whether a pool reads what a convolution gives, with an activation between; not of squeeze and excitation, which computes points. */
function isLastPool({ inputs: [value], outputs }: Node, convolutions: ReadonlySet<Node>): boolean {
  const { producer } = value ?? {};
  const isActivated = producer && operatorOf(producer)?.isActivation === true;
  const source = isActivated ? producer.inputs[0]?.producer : producer;
  if (!source || !convolutions.has(source)) return false;
  return !outputs.some((output) => output?.uses.some((reader) => convolutions.has(reader)));
}

/** Whether a node is a product of matrices. */
export function isProduct({ opType }: Node): boolean {
  return PRODUCTS.has(opType);
}

function readAll(rewrite: Rewrite, node: Node): readonly Read[] {
  return [...node.inputs.keys()].map((slot) => ({ node, slot, tensor: readName(rewrite, node, slot)! }));
}

const WEIGHTED: ReadonlySet<string> = new Set(['Conv', 'ConvTranspose', 'Einsum', 'Gemm', 'MatMul']);
const PRODUCTS: ReadonlySet<string> = new Set(['Einsum', 'Gemm', 'MatMul']);
const WEIGHT_SLOT = 1;
const BIAS_SLOT = 2;

/** The name of the tensor that a node reads in the rewritten graph. */
export function readName(rewrite: Rewrite, node: Node, slot: number): string | undefined {
  return editOf(rewrite, node).inputs.get(slot) ?? node.inputs[slot]?.name;
}

/** A layer, why it stays in float32, or undefined if it has no constant weights. */
function readLayer(rewrite: Rewrite, node: Node, attributesOf: AttributesOf): Layer | string | undefined {
  const { inputs, opType } = node;
  const [data, weight, bias] = inputs;
  if (!data || !weight || opType === 'Einsum')
    return inputs.some((value) => value && findConstant(value, attributesOf)) ? 'it is an Einsum' : undefined;
  const weights = findConstant(weight, attributesOf);
  if (!weights) return findConstant(data, attributesOf) ? 'its constant matrix is on the left' : undefined;
  const edited = editOf(rewrite, node).inputs;
  if (edited.has(WEIGHT_SLOT) || edited.has(BIAS_SLOT)) return 'a part that was added to the graph feeds it';
  if (isConstant(data)) return 'it computes a constant, once';
  const { elemType, dims } = weights.tensor;
  if (elemType !== ELEMENT_TYPE.float32) return 'its weights are not float32';
  const axis = channelAxis(node, dims, attributesOf(node));
  if (typeof axis === 'string') return axis;
  const channels = weights.isTransposed ? dims[1 - axis] : dims[axis];
  const added = bias && findConstant(bias, attributesOf);
  const isPlain = added && !added.isTransposed && added.tensor.elemType === ELEMENT_TYPE.float32;
  const isPerChannel = isPlain && added.tensor.dims.length === 1 && added.tensor.dims[0] === channels;
  const isFoldable = !weights.isTransposed && (isPerChannel || !bias);
  const norm = isFoldable ? findNorm(rewrite, node, weight, channels!, attributesOf) : undefined;
  return {
    node,
    slot: 0,
    tensor: readName(rewrite, node, 0)!,
    weights,
    axis,
    bias: isPerChannel ? added : undefined,
    norm,
    result: norm?.result ?? node.outputs[0]!,
  };
}

/** The axis of the output channels, or why there is no scale per channel. */
function channelAxis(
  { opType }: Node,
  dims: readonly number[],
  attributes: ReadonlyMap<string, Attribute>,
): number | string {
  if (opType === 'Conv') return dims.length > 2 ? 0 : 'its weights have no space';
  if (opType === 'ConvTranspose')
    return (attributes.get('group')?.int ?? 1) === 1 ? 1 : 'it is a transposed convolution in groups';
  if (dims.length !== 2) return 'its constant is not one matrix';
  if (opType === 'MatMul') return 1;
  if ((attributes.get('transA')?.int ?? 0) !== 0) return 'it transposes what it reads';
  const isScaled = (attributes.get('alpha')?.float ?? 1) !== 1 || (attributes.get('beta')?.float ?? 1) !== 1;
  if (isScaled) return 'it scales its product or its bias';
  return (attributes.get('transB')?.int ?? 0) === 0 ? 1 : 0;
}
