/** Operators without matrix products: they move data, or compute each element from a few others. */
import type { Node } from '../graph.js';

/**
 * ONNX's operators up to set 25. Left out are those with a rule, those with bodies (If, Loop, Scan, SequenceMap), transforms (DFT, STFT),
 * and training's.
 */
const STANDARD = words(`
  Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool
  BatchNormalization Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow
  Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Cos Cosh CumProd CumSum
  DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear
  Elu Equal Erf Exp Expand EyeLike Flatten Floor
  Gather GatherElements GatherND Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization
  HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity ImageDecoder InstanceNormalization IsInf IsNaN
  LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool LRN
  Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Multinomial
  Neg NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement OptionalHasElement Or
  Pad Pow PRelu QuantizeLinear RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal
  ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch
  Relu Reshape Resize ReverseSequence RMSNormalization RoiAlign RotaryEmbedding Round
  Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
  Shape Shrink Sigmoid SimplifiedLayerNormalization Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze
  StringConcat StringNormalizer StringSplit Sub Sum Swish
  Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor`);

/** Operators of ONNX Runtime that stand in optimised and quantised files. */
const CONTRIBUTED = words(`
  BiasAdd BiasGelu BiasSoftmax BiasSplitGelu DequantizeLinear FastGelu Gelu GroupNorm
  NhwcMaxPool QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
  QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear QuickGelu RotaryEmbedding SimplifiedLayerNormalization
  SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization`);

function words(list: string): ReadonlySet<string> {
  return new Set(list.trim().split(/\s+/));
}

/** Whether an operator is known to have no matrix products. */
export function hasNoProducts({ domain, opType }: Node): boolean {
  return (domain === '' && STANDARD.has(opType)) || (domain === 'com.microsoft' && CONTRIBUTED.has(opType));
}
