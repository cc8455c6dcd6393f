/**
 * Activations that quantizers dropped. Integers that end where a ReLU ends make the ReLU superfluous: onnxruntime's quantizer removes it and
 * gives its tensor to the node before it. That tensor is then the value before the ReLU, and the value after it is the rounded one.
 */
import { oncePer } from '../../../base/once-per.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import { tensorType, type Graph, type Node, type Value } from '../graph.js';
import { nameInTensor, parsePythonStrings } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import { isOwn } from './forms.js';

/** What is left of an activation behind a node. */
export interface Lost {
  /** What the exporter called it, from its tensor; `undefined` if only the range of the integers tells of it. */
  readonly name: string | undefined;
}

/** A node, and what the view makes of it. */
interface Asked {
  readonly graph: Graph;
  readonly node: Node;
  readonly opType: string;
  /** What the view calls its result. */
  readonly tensor: string;
  /** The zero point of its result, if that is whole numbers. */
  readonly zero?: Value | undefined;
}

/** What may have been dropped behind a node. */
export function findLost(asked: Asked): Lost | undefined {
  const { graph, node, zero } = asked;
  const [result] = node.outputs;
  if (!result) return undefined;
  const name = borrowedActivation(asked);
  if (zero) return name !== undefined || isCutAtZero(result, result, zero) ? { name } : undefined;
  const roundings = result.uses.filter((user) => user.opType === 'QuantizeLinear' && !isOwn(user));
  const isRounded =
    roundings.length > 0 && roundings.length === result.uses.length && !graph.isOutput(result);
  const isCut =
    isRounded && roundings.every(({ inputs, outputs }) => isCutAtZero(result, outputs[0]!, inputs[2]));
  return isRounded && (name !== undefined || isCut) ? { name } : undefined;
}

/** What dynamo's exporter calls the results of activations. */
const ACTIVATION_CALL =
  /^(?:celu|clamp(?:_max|_min)?|elu|gelu|hardsigmoid|hardswish|hardtanh|leaky_relu|mish|relu|relu6|selu|sigmoid|silu|softplus|tanh|threshold)(?:_\d+)?$/;

/** The activation whose tensor a node has, though it is another operator: the name of torch's call, or that of the operator. */
function borrowedActivation({ node, opType, tensor }: Asked): string | undefined {
  if (operatorOf({ domain: '', opType })?.isActivation || SPELLED_OUT.has(opType)) return undefined;
  const named = nameInTensor(tensor)?.split('/').at(-1);
  if (named !== undefined) {
    const base = named.replace(/_\d+$/, '');
    return operatorOf({ domain: '', opType: base })?.isActivation === true && base !== opType
      ? named
      : undefined;
  }
  if (!ACTIVATION_CALL.test(tensor)) return undefined;
  const scopes = node.scanned.metadata.get('pkg.torch.onnx.name_scopes') ?? '';
  const own = parsePythonStrings(scopes)?.at(-1)?.replace(/_\d+$/, '');
  return tensor.replace(/_\d+$/, '') === own ? undefined : tensor;
}

/** Operators that an activation may end with where an exporter or optimiser spells it out. */
const SPELLED_OUT: ReadonlySet<string> = new Set(['Div', 'Max', 'Min', 'Mul', 'Where']);

/** The operator of an activation of this name. */
export function operatorOfActivation(name: string | undefined): string {
  const base = name?.replace(/_\d+$/, '') ?? '';
  if (/^[A-Z]/.test(base)) return base;
  return /^(?:clamp|hardtanh|relu6)/.test(base) ? 'Clip' : 'Relu';
}

/** The least number of each type, as bits. ONNX Runtime leaves -128 out where it rounds symmetrically. */
const LEAST: ReadonlyMap<number, readonly number[]> = new Map([
  [ELEMENT_TYPE.uint8, [0]],
  [ELEMENT_TYPE.int8, [0x80, 0x81]],
  [ELEMENT_TYPE.uint16, [0]],
  [ELEMENT_TYPE.int16, [0x8000, 0x8001]],
]);

/** Whether a node's value may have numbers below zero, and its rounding has none, though no activation that is still there follows it. */
function isCutAtZero(value: Value, rounded: Value, zeroPoint: Value | undefined): boolean {
  if (!isLeast(rounded, zeroPoint) || isNeverNegative(value, 0)) return false;
  const readers = rounded.uses.flatMap((user) =>
    user.opType === 'DequantizeLinear' ? (user.outputs[0]?.uses ?? []) : [user],
  );
  return readers.length === 0 || !readers.every((reader) => operatorOf(reader)?.isActivation);
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
