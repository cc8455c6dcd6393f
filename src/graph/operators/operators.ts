/** Which operators compute in float16, and why others must not (docs/decisions/034-half-precision.md). */

/**
 * How an operator joins a float16 region: `computes` always does, because it is where the time goes; `follows` and `moves` do if
 * what they read is float16 already, so that no cast is made for them. `moves` copies elements and is exact.
 */
export type HalfForm = 'computes' | 'follows' | 'moves';

const FORMS: Readonly<Record<HalfForm, readonly string[]>> = {
  computes: ['Conv', 'ConvTranspose', 'Einsum', 'Gemm', 'MatMul'],
  follows: [
    'Abs', 'Add', 'AveragePool', 'BatchNormalization', 'Ceil', 'Celu', 'Clip', 'Div', 'Elu', 'Erf', 'Floor', 'Gelu',
    'GlobalMaxPool', 'HardSigmoid', 'HardSwish', 'LeakyRelu', 'Max', 'MaxPool', 'Min', 'Mul', 'Neg', 'PRelu', 'ReduceMax',
    'ReduceMin', 'Reciprocal', 'Relu', 'Round', 'Selu', 'Sigmoid', 'Sign', 'Softsign', 'Sqrt', 'Sub', 'Sum', 'Tanh',
    'ThresholdedRelu',
  ],
  moves: [
    'Concat', 'DepthToSpace', 'Dropout', 'Expand', 'Flatten', 'Gather', 'GatherElements', 'GatherND', 'Identity', 'Pad',
    'Reshape', 'Slice', 'SpaceToDepth', 'Split', 'Squeeze', 'Tile', 'Transpose', 'Unsqueeze', 'Where',
  ],
}; // prettier-ignore

/** Why operators stay in float32, and whether `convert` may overrule that: ONNX defines those for float16 as well. */
const KEPT: readonly {
  readonly reason: string;
  readonly canConvert: boolean;
  readonly operators: readonly string[];
}[] = [
  {
    reason: 'it sums many terms, which overflow above 65,504 or lose digits',
    canConvert: true,
    operators: [
      'GlobalAveragePool', 'GlobalLpPool', 'GroupNormalization', 'InstanceNormalization', 'LRN', 'LayerNormalization',
      'LpNormalization', 'LpPool', 'Mean', 'MeanVarianceNormalization', 'RMSNormalization', 'ReduceL1', 'ReduceL2',
      'ReduceMean', 'ReduceProd', 'ReduceSum', 'ReduceSumSquare',
    ], // prettier-ignore
  },
  {
    reason: 'its exponentials or powers leave the range of float16',
    canConvert: true,
    operators: [
      'Exp',
      'Log',
      'LogSoftmax',
      'Mish',
      'Pow',
      'ReduceLogSum',
      'ReduceLogSumExp',
      'Softmax',
      'Softplus',
    ],
  },
  {
    reason: 'it computes positions or an order, which 11 bits round to other ones',
    canConvert: false,
    operators: [
      'AffineGrid', 'ArgMax', 'ArgMin', 'CumSum', 'Cos', 'GridSample', 'Hardmax', 'MaxRoiPool', 'NonMaxSuppression', 'OneHot',
      'Range', 'Resize', 'RoiAlign', 'Sin', 'TopK', 'Upsample',
    ], // prettier-ignore
  },
  {
    reason: 'it states its type, or compares, and gains nothing from float16',
    canConvert: false,
    operators: [
      'CastLike', 'DequantizeLinear', 'DynamicQuantizeLinear', 'Equal', 'EyeLike', 'Greater', 'GreaterOrEqual', 'IsInf',
      'IsNaN', 'Less', 'LessOrEqual', 'NonZero', 'QuantizeLinear', 'RandomNormalLike', 'RandomUniformLike',
    ], // prettier-ignore
  },
  {
    reason: 'it carries sums from step to step',
    canConvert: false,
    operators: ['GRU', 'LSTM', 'RNN', 'Attention'],
  },
];

const FORM_OF: ReadonlyMap<string, HalfForm> = new Map(
  (Object.keys(FORMS) as HalfForm[]).flatMap((form) => FORMS[form].map((operator) => [operator, form])),
);
const REASONS: ReadonlyMap<string, string> = new Map(
  KEPT.flatMap(({ reason, operators }) => operators.map((operator) => [operator, reason])),
);
const CONVERTIBLE: ReadonlySet<string> = new Set(
  KEPT.filter(({ canConvert }) => canConvert).flatMap(({ operators }) => operators),
);

/** Operators that read a tensor of any type, and whose result does not change with it. */
export const READS_ANY_TYPE: ReadonlySet<string> = new Set(['Cast', 'Shape', 'Size']);

/** How an operator of the default domain joins float16 regions; undefined if it stays in float32. */
export function halfForm(operator: string): HalfForm | undefined {
  return FORM_OF.get(operator);
}

/** Why an operator stays in float32. */
export function keptReason(operator: string): string {
  return REASONS.get(operator) ?? 'it is not known to be right in float16';
}

/** Whether the option `convert` may name an operator. */
export function canConvert(operator: string): boolean {
  return CONVERTIBLE.has(operator);
}

/** The operators that `convert` may name, sorted. */
export function convertibleOperators(): string[] {
  return [...CONVERTIBLE].toSorted();
}

/** Whether the operators of an option exist in the tables, or can be operators of another domain. */
export function isKnownOperator(operator: string): boolean {
  return FORM_OF.has(operator) || REASONS.has(operator);
}
