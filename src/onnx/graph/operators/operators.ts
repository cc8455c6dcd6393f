/**
 * The registry: what each operator is. Lists of operators elsewhere derive from it, and rules with code are checked against it
 * (test/onnx/graph/operators). An operator that is new to ONNX is a name in the row of its like, or a row.
 */
import type { Operator } from './operator.js';

const elementwise = { sizes: 'elementwise', axes: 'kept', batch: 'kept', macs: 'none', types: [0] } as const;
const broadcast = { ...elementwise, sizes: 'broadcast', batch: 'broadcast' } as const;
/** Elements meet along certain axes. */
const along = { ...elementwise, sizes: 'same', batch: 'own' } as const;
/** Maps with channels on the second axis. */
const onMaps = { ...elementwise, sizes: 'unknown', axes: 'channels second', batch: 'first axis' } as const;
const reduction = { ...elementwise, sizes: 'reduced', axes: 'reduced', batch: 'reduction' } as const;
const product = { ...elementwise, sizes: 'unknown', axes: 'product', batch: 'own', macs: 'own' } as const;
const moving = { ...along, sizes: 'unknown', axes: 'unknown', half: 'moves' } as const;
const other = { ...moving, batch: 'kept', half: 'unproven' } as const;
const int8 = { half: 'unproven', int8: 'computes' } as const;
const truth = { types: ['bool'], half: 'typed', isStep: true } as const;

type Row = readonly [names: string, operator: Operator];

/** The default domain, up to operator set 28. */
// prettier-ignore
const STANDARD: readonly Row[] = [
  // One element of the first input.
  ['Celu Clip Elu Erf Gelu HardSigmoid HardSwish LeakyRelu Relu Selu Sigmoid Softsign Swish Tanh ThresholdedRelu', { ...elementwise, half: 'follows', isActivation: true }],
  ['Mish Softplus', { ...elementwise, half: 'exponentials', isActivation: true }],
  ['Exp Log', { ...elementwise, half: 'exponentials' }],
  ['Abs Neg Reciprocal Sqrt', { ...elementwise, half: 'follows' }],
  ['Ceil Floor Round Sign', { ...elementwise, half: 'follows', isStep: true }],
  ['Cos Sin', { ...elementwise, half: 'positions' }],
  ['Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cosh Shrink Sinh Tan', { ...elementwise, half: 'unproven' }],
  ['Identity', { ...elementwise, half: 'moves', levels: 'first' }],
  ['Dropout', { ...elementwise, half: 'moves', types: [0, 'bool'] }],
  ['Cast', { ...elementwise, half: 'any', types: ['stated'] }],
  ['BitCast', { ...elementwise, half: 'unproven', types: ['unknown'] }],
  ['CastLike', { ...elementwise, batch: 'own', half: 'typed', types: [1] }],
  ['IsInf IsNaN Not', { ...elementwise, ...truth }],
  ['DequantizeLinear', { ...elementwise, batch: 'own', half: 'typed', types: [1], int8: 'widens' }],
  ['QuantizeLinear', { ...elementwise, batch: 'own', half: 'typed', types: [2], int8: 'computes' }],
  ['Bernoulli', { ...elementwise, half: 'unproven', types: ['unknown'], isRandom: true }],
  ['RandomNormalLike RandomUniformLike', { ...elementwise, half: 'typed', types: ['unknown'], isRandom: true }],

  // One element of each input.
  ['Add Div Max Min Mul Sub Sum', { ...broadcast, half: 'follows' }],
  ['PRelu', { ...broadcast, sizes: 'elementwise', half: 'follows', isActivation: true }],
  ['Mean', { ...broadcast, half: 'sums' }],
  ['Pow', { ...broadcast, half: 'exponentials' }],
  ['BitShift BitwiseAnd BitwiseOr BitwiseXor Mod SwiGLU', { ...broadcast, half: 'unproven' }],
  ['And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor', { ...broadcast, ...truth }],
  ['Where', { ...broadcast, half: 'moves', types: [1] }],
  ['StringConcat', { ...broadcast, half: 'unproven', types: ['string'] }],

  // Norms, shares and sums along axes.
  ['LogSoftmax Softmax', { ...along, half: 'exponentials' }],
  ['Hardmax', { ...along, half: 'positions', isStep: true }],
  ['BatchNormalization', { ...along, axes: 'channels second', half: 'follows', types: [0, 3] }],
  ['GroupNormalization InstanceNormalization LRN', { ...onMaps, sizes: 'same', half: 'sums' }],
  ['LayerNormalization', { ...along, axes: 'normalised', batch: 'last axes', half: 'sums', types: [0, 'unknown'] }],
  ['RMSNormalization SimplifiedLayerNormalization', { ...along, axes: 'normalised', batch: 'last axes', half: 'sums', types: [1, 'unknown'] }],
  ['LpNormalization', { ...along, half: 'sums' }],
  // Its function in ONNX has a constant in float32.
  ['MeanVarianceNormalization', { ...along, half: 'typed' }],
  ['CumSum', { ...along, half: 'positions' }],
  ['CumProd Trilu', { ...along, half: 'unproven' }],
  ['RotaryEmbedding', { ...along, batch: 'kept', half: 'unproven' }],

  // Windows over maps.
  ['Conv', { ...onMaps, sizes: 'own', macs: 'own', half: 'computes', isLayer: true }],
  ['ConvTranspose', { ...onMaps, macs: 'own', half: 'computes', isLayer: true }],
  ['DeformConv', { ...onMaps, batch: 'kept', macs: 'own', half: 'unproven' }],
  ['ConvInteger', { ...onMaps, ...int8, sizes: 'own', macs: 'own', types: ['int32'] }],
  ['QLinearConv', { ...onMaps, ...int8, sizes: 'own', macs: 'own', types: [7] }],
  ['AveragePool', { ...onMaps, sizes: 'own', half: 'follows' }],
  ['MaxPool', { ...onMaps, sizes: 'own', half: 'follows', types: [0, 'int64'], levels: 'first' }],
  ['GlobalMaxPool', { ...onMaps, sizes: 'own', half: 'follows' }],
  ['GlobalAveragePool GlobalLpPool LpPool', { ...onMaps, sizes: 'own', half: 'sums' }],
  ['DepthToSpace SpaceToDepth', { ...onMaps, sizes: 'own', half: 'moves', levels: 'first' }],
  ['Resize', { ...onMaps, batch: 'own', half: 'positions', levels: 'first' }],
  ['GridSample Upsample', { ...onMaps, batch: 'kept', half: 'positions' }],
  ['MaxRoiPool RoiAlign', { ...onMaps, batch: 'mixed', half: 'positions' }],
  ['Col2Im MaxUnpool', { ...onMaps, batch: 'kept', half: 'unproven' }],

  // Reductions.
  ['ReduceMax ReduceMin', { ...reduction, half: 'follows' }],
  ['ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSum ReduceSumSquare', { ...reduction, half: 'sums' }],
  ['ReduceLogSum ReduceLogSumExp', { ...reduction, half: 'exponentials' }],
  ['ArgMax ArgMin', { ...reduction, sizes: 'own', half: 'positions', types: ['int64'], isStep: true }],

  // Products, attention and recurrent layers.
  ['MatMul', { ...product, sizes: 'own', half: 'computes' }],
  ['Gemm', { ...product, sizes: 'own', half: 'computes', isLayer: true }],
  ['Einsum', { ...product, axes: 'unknown', half: 'computes' }],
  ['MatMulInteger', { ...product, ...int8, sizes: 'own', types: ['int32'] }],
  ['QLinearMatMul', { ...product, ...int8, sizes: 'own', axes: 'unknown', types: [7] }],
  ['Attention', { ...other, macs: 'own', half: 'recurrent', types: [0, 'unknown'], isAttention: true }],
  ['LinearAttention', { ...other, macs: 'unknown', types: [0, 3], isAttention: true }],
  ['GRU LSTM RNN', { ...other, batch: 'own', macs: 'own', half: 'recurrent' }],
  ['CausalConvWithState', { ...other, macs: 'unknown' }],
  ['DFT', { ...other, batch: 'own', macs: 'unknown' }],
  ['STFT', { ...other, macs: 'unknown' }],

  // Elements at other places.
  ['Expand Gather', { ...moving, sizes: 'own' }],
  ['GatherElements GatherND Tile', moving],
  ['Flatten Reshape Squeeze Unsqueeze', { ...moving, sizes: 'own', levels: 'first' }],
  ['Transpose', { ...moving, sizes: 'own', axes: 'turned', levels: 'first' }],
  ['Concat', { ...moving, sizes: 'own', axes: 'kept', levels: 'all' }],
  ['Slice', { ...moving, sizes: 'own', axes: 'kept', levels: 'first' }],
  ['Split', { ...moving, axes: 'kept', levels: 'first' }],
  ['Pad', { ...moving, sizes: 'own', axes: 'kept', batch: 'kept', levels: 'first' }],
  ['CenterCropPad', { ...other, axes: 'kept' }],
  ['Scatter ScatterElements ScatterND', { ...moving, sizes: 'same', half: 'unproven' }],
  ['TensorScatter', { ...other, sizes: 'same' }],
  ['ReverseSequence', { ...other, sizes: 'same', batch: 'mixed' }],
  ['Compress', { ...other, batch: 'mixed' }],
  ['Unique', { ...other, batch: 'mixed', types: [0, 'int64'] }],
  ['TopK', { ...moving, half: 'positions', types: [0, 'int64'] }],

  // Sizes, positions and constants.
  ['Shape', { ...moving, sizes: 'own', half: 'any', types: ['int64'], isStep: true, readsOnlySizes: true }],
  ['Size', { ...moving, half: 'any', types: ['int64'], isStep: true, readsOnlySizes: true }],
  ['Constant', { ...other, half: 'any', types: ['stated'] }],
  ['ConstantOfShape', { ...other, half: 'any', types: ['stated'], isStep: true }],
  ['Range', { ...other, half: 'positions' }],
  ['AffineGrid', { ...other, half: 'positions' }],
  ['EyeLike', { ...other, batch: 'mixed', half: 'typed', types: ['unknown'], isStep: true }],
  ['NonZero', { ...other, batch: 'mixed', half: 'typed', types: ['int64'], isStep: true }],
  ['NonMaxSuppression', { ...other, batch: 'mixed', half: 'positions', types: ['int64'] }],
  ['OneHot', { ...moving, half: 'positions', types: [2] }],
  ['DynamicQuantizeLinear', { ...other, ...int8, half: 'typed', types: ['uint8', 'float32', 'uint8'], sharesScale: true }],
  ['Multinomial RandomNormal RandomUniform', { ...other, types: ['unknown'], isRandom: true }],
  ['BlackmanWindow HammingWindow HannWindow MelWeightMatrix', { ...other, types: ['unknown'] }],
  ['Det', other],

  // What is no tensor of numbers, and control flow.
  ['SequenceConstruct', { ...other, batch: 'mixed', types: ['sequence'] }],
  ['SequenceEmpty SequenceErase SequenceInsert SplitToSequence', { ...other, types: ['sequence'] }],
  ['SequenceLength', { ...other, types: ['int64'] }],
  ['ConcatFromSequence Optional OptionalGetElement SequenceAt', { ...other, types: ['unknown'] }],
  ['OptionalHasElement RegexFullMatch', { ...other, types: ['bool'] }],
  ['StringNormalizer', { ...other, types: ['string'] }],
  ['StringSplit', { ...other, types: ['string', 'int64'] }],
  ['TfIdfVectorizer', { ...other, types: ['float32'] }],
  ['ImageDecoder', { ...other, types: ['uint8'] }],
  ['SequenceMap', { ...other, macs: 'unknown', types: ['sequence'] }],
  ['If Loop Scan', { ...other, macs: 'unknown', types: ['unknown'] }],
  ['NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss', { ...other, macs: 'unknown' }],
];

/** ONNX Runtime's domain: what stands in optimised and quantised files. */
// prettier-ignore
const CONTRIBUTED: readonly Row[] = [
  ['BiasGelu FastGelu Gelu QuickGelu', { ...elementwise, half: 'unproven', isActivation: true }],
  ['DequantizeLinear', { ...elementwise, batch: 'own', half: 'unproven', types: ['unknown'], int8: 'widens' }],
  ['QuantizeLinear', { ...elementwise, ...int8, batch: 'own', types: ['unknown'] }],
  ['SimplifiedLayerNormalization', { ...along, axes: 'normalised', batch: 'last axes', half: 'unproven', types: [1, 'unknown'] }],
  ['FusedConv', { ...onMaps, batch: 'kept', macs: 'own', half: 'unproven' }],
  ['FusedGemm FusedMatMul MatMulNBits', { ...product, batch: 'kept', half: 'unproven' }],
  ['DynamicQuantizeMatMul', { ...product, ...int8, batch: 'kept', sharesScale: true }],
  ['MatMulIntegerToFloat', { ...product, ...int8, batch: 'kept', types: [2] }],
  // QLinearConv can have channels last.
  ['QGemm QLinearConv', { ...other, ...int8, macs: 'own', types: ['unknown'] }],
  ['Attention MultiHeadAttention', { ...other, macs: 'own', isAttention: true }],
  ['QAttention', { ...other, ...int8, macs: 'own', types: ['unknown'], isAttention: true, sharesScale: true }],
  ['GroupQueryAttention', { ...other, macs: 'unknown', isAttention: true }],
  ['BiasAdd BiasSoftmax BiasSplitGelu GroupNorm NhwcMaxPool RotaryEmbedding', other],
  ['SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization', { ...other, types: [0, 'unknown'] }],
  ['QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QLinearWhere', { ...other, ...int8, types: ['unknown'] }],
];

/** ONNX Runtime's domain for convolutions in blocks of channels. */
const BLOCKED: readonly Row[] = [
  [
    'AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool Upsample',
    { ...onMaps, batch: 'kept', macs: 'unknown', half: 'unproven' },
  ],
];

function byName(rows: readonly Row[]): ReadonlyMap<string, Operator> {
  return new Map(
    rows.flatMap(([names, operator]) => names.split(' ').map((name): [string, Operator] => [name, operator])),
  );
}

/** By domain and name. */
export const OPERATORS: ReadonlyMap<string, ReadonlyMap<string, Operator>> = new Map([
  ['', byName(STANDARD)],
  ['com.microsoft', byName(CONTRIBUTED)],
  ['com.microsoft.nchwc', byName(BLOCKED)],
]);

/** What the operator of a node is; undefined for functions and operators that the registry does not have. */
export function operatorOf(node: { readonly domain: string; readonly opType: string }): Operator | undefined {
  return OPERATORS.get(node.domain)?.get(node.opType);
}
