/** Other forms of values and operators that quantizers and converters write: what carries a value, and what computes in 8 bits. */
import { ELEMENT_TYPE, isFloatType } from '../../file/wire/schema.js';
import { oncePer } from '../../../base/once-per.js';
import { tensorType, type Node, type Value } from '../graph.js';
import { nameInTensor } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';

/** What an operator on integers computes: the operator on floats, and where its inputs stand. */
export interface Kernel {
  readonly opType: string;
  /** Its numbers, weight and bias; `pairs`: each third input from the one with this number on. */
  readonly reads: readonly number[] | { readonly pairs: number };
  /** Scale and zero point of its result; `undefined` if that is a float. */
  readonly levels?: readonly [scale: number, zero: number];
}

/** By operator, in both domains. Of those with a bias that MatMul lacks, an Add follows. */
export const KERNELS: ReadonlyMap<string, Kernel> = new Map<string, Kernel>([
  ['QLinearConv', { opType: 'Conv', reads: [0, 3, 8], levels: [6, 7] }],
  ['QLinearMatMul', { opType: 'MatMul', reads: [0, 3], levels: [6, 7] }],
  ['QGemm', { opType: 'Gemm', reads: [0, 3, 6], levels: [7, 8] }],
  ...['Add', 'Mul'].map((opType): [string, Kernel] => [
    `QLinear${opType}`,
    { opType, reads: [0, 3], levels: [6, 7] },
  ]),
  ...['AveragePool', 'GlobalAveragePool', 'LeakyRelu', 'ReduceMean', 'Sigmoid', 'Softmax'].map(
    (opType): [string, Kernel] => [`QLinear${opType}`, { opType, reads: [0], levels: [3, 4] }],
  ),
  ['QLinearConcat', { opType: 'Concat', reads: { pairs: 2 }, levels: [0, 1] }],
  ['QLinearWhere', { opType: 'Where', reads: [0, 1, 4], levels: [7, 8] }],
  ['DynamicQuantizeMatMul', { opType: 'MatMul', reads: [0, 1, 4] }],
  ['MatMulIntegerToFloat', { opType: 'MatMul', reads: [0, 1, 6] }],
  ['MatMulNBits', { opType: 'MatMul', reads: [0, 1, 5] }],
]);

/** Products of integers, whose result a Cast and a Mul make a float. */
export const INTEGER_PRODUCTS: ReadonlyMap<string, string> = new Map([
  ['ConvInteger', 'Conv'],
  ['MatMulInteger', 'MatMul'],
]);

/** Operators that make a graph another one than its float view. */
export function isQuantizing({ opType }: Node): boolean {
  return OTHER_FORMS.has(opType);
}

const OTHER_FORMS: ReadonlySet<string> = new Set([
  'QuantizeLinear',
  'DequantizeLinear',
  'DynamicQuantizeLinear',
  ...KERNELS.keys(),
  ...INTEGER_PRODUCTS.keys(),
]);

/** Whether a result of a node is integers that stand for numbers, or a part of such a computation. */
export function givesIntegers({ opType, inputs }: Node): boolean {
  const kernel = KERNELS.get(opType);
  if (kernel) return kernel.levels !== undefined && inputs[kernel.levels[0]] !== undefined;
  return OTHER_FORMS.has(opType) && opType !== 'DequantizeLinear';
}

/** Whether a node is one of the source network, and none that a tool added: exporters name tensors after nodes, or state where those stood. */
export function isOwn({ name, outputs, scanned }: Node): boolean {
  return (
    scanned.metadata.has('pkg.torch.onnx.name_scopes') ||
    (name !== '' && nameInTensor(outputs[0]?.name ?? '') === name)
  );
}

/** Whether a Cast that a tool added makes halves of floats, or floats of halves. */
export function isFloatCast(node: Node): boolean {
  const [value] = node.inputs;
  if (node.opType !== 'Cast' || !value || isOwn(node)) return false;
  const types = [node.scanned.layout.get('to') ?? 0, floatTypeOf(value, 0)];
  return types.every(isFloatType) && types.some((type) => HALVES.has(type));
}

const HALVES: ReadonlySet<number> = new Set([ELEMENT_TYPE.float16, ELEMENT_TYPE.bfloat16]);
const MAX_HOPS = 32;

/** The type of a value, as far as the file tells it of a float; else 0. */
const floatTypeOf = oncePer((value: Value, hops: number): number => {
  const { producer, initializer } = value;
  const stated = tensorType(value)?.elemType ?? initializer?.elemType;
  if (stated !== undefined && stated !== 0) return stated;
  if (!producer || hops === MAX_HOPS) return 0;
  if (producer.opType === 'Cast') return producer.scanned.layout.get('to') ?? 0;
  const type = operatorOf(producer)?.types[0];
  if (typeof type !== 'number') return ELEMENT_TYPE[type as 'float32'] ?? 0;
  const source = producer.inputs[type];
  return source ? floatTypeOf(source, hops + 1) : 0;
});

/** What quantizers call tensors: after a tensor of the source, with a beginning or an ending. */
const OTHER_NAMES: readonly RegExp[] = [
  /^(.+)_(?:quantized|(?:Quantize|Dequantize)Linear_(?:Output|Input))(?:\/duplicated|_token_\d+)*$/s,
  /^(?:q|dq)_output_(.+)_\d+$/s,
  /^(.+)\/(?:u?int(?:8|32)|smoothed)(?:_\d+)?$/s,
  /^(.+)_Q(?:4|8)(?:G\d+)?$/s,
];

/** The tensor of the source whose value a tensor has, by its name alone. */
export function sourceName(name: string): string {
  for (const pattern of OTHER_NAMES) {
    const found = pattern.exec(name);
    if (found) return found[1]!;
  }
  return name;
}

/** The name of a weight in the source: tools that turn a Gemm into a MatMul transpose its weight. */
export function sourceWeight(name: string): string {
  return sourceName(name).replace(/_Transposed$/, '');
}

/** The tensor whose levels a scale belongs to, by its name. */
export function scaledName(scale: string): string | undefined {
  return /^(.+?)(?:_QuantizeLinear)?_scale$/s.exec(scale)?.[1] ?? /^scale_(.+)_\d+$/s.exec(scale)?.[1];
}
