/** Which operators compute in float16, and why others must not (docs/decisions/034-half-precision.md). */
import type { Operator } from '../../../onnx/graph/operators/operator.js';
import { OPERATORS } from '../../../onnx/graph/operators/operators.js';

/** How an operator joins a float16 region. */
export type HalfForm = 'computes' | 'follows' | 'moves';

type Kept = Exclude<Operator['half'], HalfForm>;

const NOT_PROVEN = 'it is not known to be right in float16';

/** Why operators stay in float32. */
const REASONS: Readonly<Record<Kept, string>> = {
  sums: 'it sums many terms, which overflow above 65,504 or lose digits',
  exponentials: 'its exponentials or powers leave the range of float16',
  positions: 'it computes positions or an order, which 11 bits round to other ones',
  typed: 'it states its type, or compares, and gains nothing from float16',
  recurrent: 'it carries sums from step to step',
  any: NOT_PROVEN,
  unproven: NOT_PROVEN,
};

const STANDARD = OPERATORS.get('')!;

function isKept(half: Operator['half']): half is Kept {
  return half in REASONS;
}

/** How an operator of the default domain joins float16 regions; undefined if it stays in float32. */
export function halfForm(operator: string): HalfForm | undefined {
  const half = STANDARD.get(operator)?.half;
  return half === undefined || isKept(half) ? undefined : half;
}

/** Why an operator stays in float32. */
export function keptReason(operator: string): string {
  const half = STANDARD.get(operator)?.half;
  return half !== undefined && isKept(half) ? REASONS[half] : NOT_PROVEN;
}

/** Whether an operator reads a tensor of any type, and its result does not change with it. */
export function readsAnyType(node: { readonly domain: string; readonly opType: string }): boolean {
  return node.domain === '' && STANDARD.get(node.opType)?.half === 'any';
}

/** Whether the option `convert` may name an operator: ONNX defines it for float16 as well. */
export function canConvert(operator: string): boolean {
  const half = STANDARD.get(operator)?.half;
  return half === 'sums' || half === 'exponentials';
}

/** The operators that `convert` may name, sorted. */
export function convertibleOperators(): string[] {
  return [...STANDARD.keys()].filter(canConvert).toSorted();
}

/** Whether an operator is one of ONNX's. */
export function isKnownOperator(operator: string): boolean {
  return STANDARD.has(operator);
}
