/** A head of global average pooling and one linear layer: the gradient of the layer in front of it needs no backward pass. */
import type { Attribute } from '../file/scan/attributes.js';
import type { ScannedTensor } from '../file/scan/scan-value.js';
import type { Dim } from '../file/wire/schema.js';
import type { Node, Value } from './graph.js';
import type { Constants } from './read-constants.js';

/** What lies between a layer and the scores, where that is a mean over the places, a linear layer, and nothing else. */
export interface PoolingHead {
  /** The axis of the layer that is not averaged. */
  readonly channelAxis: number;
  /** The weight of the linear layer, of two axes: an initializer, or the tensor of a Constant. */
  readonly weight: ScannedTensor;
  /** Whether the weight is `[classes, channels]`, as torch has it, and not `[channels, classes]`. */
  readonly isTransposed: boolean;
  /** What the product is multiplied by. */
  readonly scale: number;
}

/** What must be known about the two ends. */
export interface HeadEnds {
  readonly layer: Value;
  readonly layerDims: readonly Dim[];
  readonly scores: Value;
}

/**
 * Proves the structure, going back from the scores. Each node on the way reads one tensor that is no constant, so the scores depend on
 * the layer in this one way.
 *
 * The nodes around the linear layer keep the order of the elements. So a row of the layer becomes a row of the scores, whatever dims are in
 * between, if the scores are `[N, classes]` and N is that of the layer. The caller checks this, at the latest when the graph runs.
 *
 * @returns undefined where anything else lies between the ends, or sizes that the proof needs are unknown.
 */
export function findPoolingHead(ends: HeadEnds, facts: Constants): PoolingHead | undefined {
  const linear = linearLayer(skip(ends.scores, KEEPS_ORDER), facts);
  const pool = linear && skip(linear.input, KEEPS_ORDER).producer;
  if (!pool || !isPlain(pool) || skip(pool.inputs[0]!, KEEPS_DIMS, ends.layer) !== ends.layer)
    return undefined;
  const { layerDims } = ends;
  const axes = averagedAxes(pool, layerDims, facts);
  const kept = [...layerDims.keys()].filter((axis) => axis > 0 && !axes?.includes(axis));
  const [channelAxis] = kept;
  if (!axes || axes.includes(0) || kept.length !== 1) return undefined;
  return layerDims[channelAxis!] === linear.channels
    ? { channelAxis: channelAxis!, ...linear.head }
    : undefined;
}

/** Operators that keep each element where it is. */
const KEEPS_DIMS = new Set(['Identity', 'Dropout']);
/** Operators that change dims at most. */
const KEEPS_ORDER = new Set([...KEEPS_DIMS, 'Flatten', 'Squeeze', 'Unsqueeze', 'Reshape']);

/** Goes back over operators of a set, not beyond `end`. A Dropout that may be in training mode stays. */
function skip(value: Value, operators: ReadonlySet<string>, end?: Value): Value {
  let source = value;
  for (let node = source.producer; node && source !== end; node = source.producer) {
    const isTraining = node.opType === 'Dropout' && node.inputs[2] !== undefined;
    if (!isPlain(node) || !operators.has(node.opType) || isTraining || source !== node.outputs[0]) break;
    source = node.inputs[0]!;
  }
  return source;
}

function isPlain({ domain, inputs }: Node): boolean {
  return domain === '' && inputs[0] !== undefined;
}

interface Linear {
  readonly input: Value;
  readonly channels: number;
  readonly head: Pick<PoolingHead, 'weight' | 'isTransposed' | 'scale'>;
}

/** A Gemm, or a MatMul with or without the sum of a bias. */
function linearLayer(scores: Value, facts: Constants): Linear | undefined {
  const product = scores.producer?.opType === 'Add' ? withoutBias(scores.producer, facts) : scores;
  const node = product?.producer;
  if (!node || !isPlain(node) || (node.opType !== 'Gemm' && node.opType !== 'MatMul')) return undefined;
  const [input, factor, bias] = node.inputs;
  const attributes = facts.attributesOf(node);
  const weight = factor && constantOf(factor, facts);
  if (weight?.dims.length !== 2 || (attributes.get('transA')?.int ?? 0) !== 0) return undefined;
  if (bias && !isRow(bias, facts)) return undefined;
  const isTransposed = (attributes.get('transB')?.int ?? 0) !== 0;
  const scale = attributes.get('alpha')?.float ?? 1;
  return {
    input: input!,
    channels: weight.dims[isTransposed ? 1 : 0]!,
    head: { weight, isTransposed, scale },
  };
}

/** What a bias is added to; undefined for other sums. */
function withoutBias({ inputs: [a, b] }: Node, facts: Constants): Value | undefined {
  if (!a || !b) return undefined;
  return isRow(b, facts) ? a : isRow(a, facts) ? b : undefined;
}

/** Whether a value is a constant that is added to each row alike. */
function isRow(value: Value, facts: Constants): boolean {
  const { dims } = constantOf(value, facts) ?? {};
  return dims?.slice(0, -1).every((size) => size === 1) ?? false;
}

function constantOf(
  { initializer, producer }: Value,
  { attributesOf }: Constants,
): ScannedTensor | undefined {
  if (!producer) return initializer;
  return producer.opType === 'Constant' ? attributesOf(producer).get('value')?.tensor : undefined;
}

/** The axes that a node takes the mean over; undefined if it does something else. */
function averagedAxes(
  node: Node,
  dims: readonly Dim[],
  { attributesOf, integersOf }: Constants,
): readonly number[] | undefined {
  const places = [...dims.keys()].slice(2);
  if (node.opType === 'GlobalAveragePool') return places;
  if (node.opType === 'AveragePool') return isWhole(attributesOf(node), dims.slice(2)) ? places : undefined;
  if (node.opType !== 'ReduceMean') return undefined;
  const axes = node.inputs[1] ? integersOf(node.inputs[1]) : attributesOf(node).get('axes')?.ints;
  return axes?.map((axis) => (axis < 0 ? axis + dims.length : axis));
}

/** Whether the window of an AveragePool is the whole map. */
function isWhole(attributes: ReadonlyMap<string, Attribute>, sizes: readonly Dim[]): boolean {
  const { ints: kernel = [] } = attributes.get('kernel_shape') ?? {};
  const isUnpadded = (attributes.get('pads')?.ints ?? []).every((pad) => pad === 0);
  const isUndilated = (attributes.get('dilations')?.ints ?? []).every((step) => step === 1);
  const mode = attributes.get('auto_pad')?.text ?? 'NOTSET';
  const isSame = kernel.length === sizes.length && sizes.every((size, axis) => size === kernel[axis]);
  return isSame && isUnpadded && isUndilated && (mode === 'NOTSET' || mode === 'VALID');
}
