/** The element types of values: as the file states them, else as they follow from the operators. */
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import type { Node, Value } from '../graph.js';
import type { Cut } from '../rewrite/prune.js';
import { halfForm } from './operators.js';

/** ONNX's number of a value's element type; undefined if it is not known, or the value is no tensor. */
export type ElementTypeOf = (value: Value) => number | undefined;

const { int64, bool, float32 } = ELEMENT_TYPE;

/** Operators whose first result has its own type, whatever they read. */
const RESULTS: ReadonlyMap<string, number> = new Map([
  ...['ArgMax', 'ArgMin', 'NonMaxSuppression', 'NonZero', 'Shape', 'Size'].map(
    (name) => [name, int64] as const,
  ),
  ...[
    'And',
    'Equal',
    'Greater',
    'GreaterOrEqual',
    'IsInf',
    'IsNaN',
    'Less',
    'LessOrEqual',
    'Not',
    'Or',
    'Xor',
  ].map((name) => [name, bool] as const),
]);

/** Operators whose result has the type of another input than the first. */
const TYPED_BY: ReadonlyMap<string, number> = new Map([
  ['CastLike', 1],
  ['DequantizeLinear', 1],
  ['OneHot', 2],
  ['Where', 1],
]);

/** Operators, besides those that compute in float16, whose results have the type of the first input. */
const SAME = new Set([
  'CumSum', 'Exp', 'GlobalAveragePool', 'GridSample', 'GroupNormalization', 'InstanceNormalization', 'LRN', 'LayerNormalization',
  'Log', 'LogSoftmax', 'LpNormalization', 'LpPool', 'Mean', 'MeanVarianceNormalization', 'Mish', 'Mod', 'Pow', 'RMSNormalization',
  'Range', 'ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceMean', 'ReduceProd', 'ReduceSum', 'ReduceSumSquare',
  'Resize', 'ScatterElements', 'ScatterND', 'Cos', 'Sin', 'Softmax', 'Softplus', 'TopK', 'Trilu', 'Upsample',
]); // prettier-ignore

/** Operators whose further results are not of the type of the first. */
const SECOND: ReadonlyMap<string, number> = new Map([
  ['Dropout', bool],
  ['MaxPool', int64],
  ['TopK', int64],
]);

/**
 * Finds the element types of the values of a cut.
 *
 * @param stated - What is known without the operators: from the file, or from a session.
 * @param attributeType - The type that an attribute of a node states: of Cast, Constant and the like.
 */
export function elementTypes(
  { graph, nodes }: Cut,
  stated: ElementTypeOf,
  attributeType: (node: Node) => number | undefined,
): ElementTypeOf {
  const types = new Map<Value, number | undefined>();
  const typeOf: ElementTypeOf = (value) =>
    types.get(value) ?? stated(value) ?? (value.producer ? undefined : value.initializer?.elemType);
  for (const node of graph.nodes) {
    if (!nodes.has(node)) continue;
    for (const [slot, output] of node.outputs.entries())
      if (output && typeOf(output) === undefined)
        types.set(output, resultType(node, slot, typeOf, attributeType));
  }
  return typeOf;
}

function resultType(
  node: Node,
  slot: number,
  typeOf: ElementTypeOf,
  attributeType: (node: Node) => number | undefined,
): number | undefined {
  const { opType, domain, inputs } = node;
  if (domain !== '') return undefined;
  if (slot > 0 && SECOND.has(opType)) return SECOND.get(opType);
  if (opType === 'Cast' || opType === 'Constant') return attributeType(node);
  if (opType === 'ConstantOfShape') return attributeType(node) ?? float32;
  const own = RESULTS.get(opType);
  if (own !== undefined) return own;
  const by = TYPED_BY.get(opType) ?? (SAME.has(opType) || halfForm(opType) !== undefined ? 0 : undefined);
  const input = by === undefined ? undefined : inputs[by];
  return input && typeOf(input);
}
