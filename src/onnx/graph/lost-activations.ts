/**
 * Activations that quantizers dropped. Integers that end where a ReLU ends make the ReLU superfluous: onnxruntime's quantizer removes it and
 * gives its tensor to the node before it. That tensor is then the value before the ReLU, and the value after it is the rounded one.
 */
import { oncePer } from '../../base/once-per.js';
import { ELEMENT_TYPE } from '../file/wire/schema.js';
import { tensorType, type Graph, type Node, type Value } from './graph.js';
import { borrowedActivation } from './module-path.js';
import { operatorOf } from './operators/operators.js';
import { isAddedRounding } from './roundings.js';

/** What is left of an activation, behind the node that computes what it read. */
export interface LostActivation {
  /** Whether the file has what the activation read; integer kernels give only the rounded value. */
  readonly keepsInput: boolean;
  /** The node with the value after the activation; `undefined` if no node has it as numbers. */
  readonly after: Node | undefined;
  /** The activation's own name, from its tensor; `undefined` if only the rounding tells of it, so that there may have been none. */
  readonly name: string | undefined;
}

/** What may have been dropped in a graph, by the node before it. */
export const lostActivations: (graph: Graph) => ReadonlyMap<Node, LostActivation> = oncePer((graph) => {
  const found = new Map<Node, LostActivation>();
  for (const node of graph.nodes) {
    const lost = findLost(graph, node);
    if (lost) found.set(node, lost);
  }
  return found;
});

function findLost(graph: Graph, node: Node): LostActivation | undefined {
  const [result] = node.outputs;
  if (!result) return undefined;
  const levels = levelsOf(node);
  if (levels)
    return isCutAtZero(result, result, levels)
      ? { keepsInput: false, after: readerOf(result), name: undefined }
      : undefined;
  const name = borrowedActivation(node);
  const roundings = result.uses.filter(({ opType }) => opType === 'QuantizeLinear');
  const isRounded =
    roundings.length > 0 && roundings.length === result.uses.length && !graph.isOutput(result);
  const isCut =
    isRounded && roundings.every(({ inputs, outputs }) => isCutAtZero(result, outputs[0]!, inputs[2]));
  if (name === undefined && !isCut) return undefined;
  const [first] = roundings;
  const isOne = roundings.every(
    ({ inputs }) => inputs[1] === first?.inputs[1] && inputs[2] === first?.inputs[2],
  );
  const after = isRounded && isOne && first?.outputs[0] ? readerOf(first.outputs[0]) : undefined;
  return { keepsInput: true, after, name };
}

/** The numbers that a value's levels mean, if it has levels and the quantizer added a node that makes numbers of them. */
export function numbersOf(levels: Value): Value | undefined {
  const reader = readerOf(levels);
  return reader && isAddedRounding(reader) ? reader.outputs[0] : undefined;
}

function readerOf(levels: Value): Node | undefined {
  return levels.uses.find(({ opType }) => opType === 'DequantizeLinear');
}

/** The zero point of what an integer kernel gives, or undefined for any other node. */
function levelsOf({ opType, inputs }: Node): Value | undefined {
  if (opType === 'QGemm') return inputs[8];
  if (!opType.startsWith('QLinear') || opType === 'QLinearConcat') return undefined;
  if (opType === 'QLinearConv' || opType === 'QLinearMatMul') return inputs[7];
  return inputs.at(-1);
}

/** The least number of each type, as bits. ONNX Runtime leaves -128 out where it rounds symmetrically. */
const LEAST: ReadonlyMap<number, readonly number[]> = new Map([
  [ELEMENT_TYPE.uint8, [0]],
  [ELEMENT_TYPE.int8, [0x80, 0x81]],
  [ELEMENT_TYPE.uint16, [0]],
  [ELEMENT_TYPE.int16, [0x8000, 0x8001]],
]);

/** Whether a node's value may have numbers below zero, and its rounding has none. */
function isCutAtZero(value: Value, rounded: Value, zeroPoint: Value | undefined): boolean {
  return isLeast(rounded, zeroPoint) && !isNeverNegative(value, 0);
}

/** Whether the file says that levels begin at zero. Without a zero point, it is 0. */
function isLeast(rounded: Value, zeroPoint: Value | undefined): boolean {
  if (!zeroPoint) return LEAST.get(tensorType(rounded)?.elemType ?? -1)?.includes(0) === true;
  const stored = zeroPoint.initializer;
  return stored?.bits !== undefined && LEAST.get(stored.elemType)?.includes(stored.bits) === true;
}

const NOT_NEGATIVE = new Set(
  'Abs Exp HardSigmoid ReduceL1 ReduceL2 Relu Sigmoid Softmax Softplus Sqrt'.split(' '),
);
/** Their results are not negative where nothing that they read is. */
const KEEPS_SIGN = new Set(
  'Add AveragePool GlobalAveragePool GlobalMaxPool LRN Max Mul ReduceMax ReduceMean ReduceSum Sum'.split(' '),
);
const MAX_HOPS = 24;

/** Whether no number of a value is below zero, as far as the operators before it tell. */
const isNeverNegative = oncePer((value: Value, hops: number): boolean => {
  const { producer } = value;
  const [source] = producer?.inputs ?? [];
  if (!producer || !source || hops === MAX_HOPS) return false;
  // Integer kernels are named after the operators that they compute.
  const opType = producer.opType.replace(/^QLinear/, '');
  if (NOT_NEGATIVE.has(opType)) return true;
  if (opType === 'DequantizeLinear') {
    if (isLeast(source, producer.inputs[2])) return true;
    return (
      source.producer?.opType === 'QuantizeLinear' && isNeverNegative(source.producer.inputs[0]!, hops + 1)
    );
  }
  const isMoved = operatorOf(producer)?.levels === 'first' && opType !== 'Pad' && opType !== 'Resize';
  if (isMoved) return isNeverNegative(source, hops + 1);
  if (!KEEPS_SIGN.has(opType) && opType !== 'Concat') return false;
  const isKernel = opType !== producer.opType;
  const read = producer.inputs.filter((input) => input && !(isKernel && input.initializer));
  return read.every((input) => input && isNeverNegative(input, hops + 1));
});
