/** Describes a feature before the model runs: dtype, dims, channels, reduction. */
import { tensorType, type Graph, type Value } from '../../../onnx/graph/graph.js';
import type { TokenParts } from '../../../onnx/graph/token-parts.js';
import { imageSize } from '../../../onnx/graph/image-axes.js';
import { isAttention, likelyLayout, provenLayout, type Layout } from '../../../onnx/graph/layout.js';
import { elementTypeNumber, type Dim } from '../../../onnx/file/wire/schema.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import type { RewriteOutput } from '../../../onnx/graph/rewrite/rewrite.js';
import type { SessionValue } from '../../runtime/lanes/protocol.js';
import { modelInternals } from '../open/model-state.js';
import { tokensOf } from './model-tokens.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeType, describeValue } from '../open/value-info.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';

/** What ONNX Runtime reports about a value. */
export type InferredType = SessionValue & {
  /** The rank, where only a run tells it: onnxruntime reports empty dims for a scalar and for an unknown rank. */
  readonly rank?: number | undefined;
};

/** An output of a feature extractor. */
export interface FeatureInfo extends TensorInfo {
  /** The output key. */
  readonly name: string;
  /** The tensor of the model that the output holds. */
  readonly tensor: string;
  /** The channels of a map `[N, C, H, W]` (or `[N, H, W, C]`), of tokens `[N, L, C]` or of a vector `[N, C]`; null if unknown. */
  readonly channels: number | null;
  /** The stride of the map, from the heights of the input and the map, as in timm: 32 for `layer4` of a ResNet; null if it is not a map. */
  readonly reduction: number | null;
  /** The order of the axes: N batch, C channels, H and W the map, L tokens; null if unknown and for other ranks. */
  readonly layout: Layout | null;
  /**
   * Where the class token, registers and patches are among tokens `[N, L, C]`, as the graph and the `config.json` beside the model prove
   * it; null if they do not, and for other forms.
   */
  readonly tokens: TokenParts | null;
}

/** Describes a value by what the file states, else by what onnxruntime reports. */
export function describeOutput(value: Value, inferred: InferredType | undefined): TensorInfo {
  const stated = describeValue(value);
  if (!inferred || (stated.dtype !== null && stated.dims !== null)) return stated;
  // onnxruntime reports [] for a scalar and for an unknown rank.
  const ofRank = inferred.rank === undefined ? null : Array.from({ length: inferred.rank }, () => null);
  const dims: readonly Dim[] | null = inferred.dims.length === 0 ? ofRank : inferred.dims.map(openDim);
  return { name: stated.name, dtype: stated.dtype ?? inferred.dtype, dims: stated.dims ?? dims };
}

/** onnxruntime names a size that it cannot infer `unk__0`, or leaves the name empty; of some operators it gives 0. */
function openDim(size: Dim): Dim {
  return size === 0 || size === '' || String(size).startsWith('unk__') ? null : size;
}

/** The type that the file states, else the one that onnxruntime reports; undefined if the value is no tensor, or neither tells. */
export function typeFrom(value: Value, inferred: InferredType | undefined): TensorType | undefined {
  const { dtype, dims } = describeOutput(value, inferred);
  const elemType = dtype === null ? undefined : elementTypeNumber(dtype);
  return elemType === undefined ? undefined : { elemType, dims };
}

/** The type that the file states, with the sizes that follow from the inputs where those differ; undefined if none does. */
export function correctedType(
  value: Value,
  inferred: Pick<TensorType, 'dims'> | undefined,
): TensorType | undefined {
  const stated = tensorType(value);
  if (!stated?.dims || inferred?.dims?.length !== stated.dims.length) return undefined;
  const found = inferred.dims.map(openDim);
  const dims = stated.dims.map((size, axis) => found[axis] ?? size);
  const isSame = dims.every((size, axis) => size === stated.dims![axis]);
  return isSame ? undefined : { elemType: stated.elemType, dims };
}

/** Describes an output of a rewritten model. */
export function describeFeature(
  model: OnnxModel,
  output: RewriteOutput,
  inferred: InferredType | undefined,
): FeatureInfo {
  const { key, value, type, layout, tokens } = output;
  const { dtype, dims } = type ? describeType(key, type) : describeOutput(value, inferred);
  return describeTensor(model, key, value, { dtype, dims, layout, tokens });
}

/** Describes a tensor by its type. Layout and tokens are read from the graph unless they are stated. */
export function describeTensor(
  model: OnnxModel,
  name: string,
  value: Value,
  type: Pick<TensorInfo, 'dtype' | 'dims'> & Partial<Pick<RewriteOutput, 'layout' | 'tokens'>>,
): FeatureInfo {
  const { graph } = modelInternals.of(model);
  const { dtype, dims, tokens = tokensOf(model, value, dims) } = type;
  const layout =
    type.layout ?? (dims && (provenLayout(graph, value, dims) ?? guessLayout(graph, value, dims)));
  const channels = dims && layout && dims[CHANNEL_AXIS[layout]];
  return {
    name,
    tensor: value.name,
    dtype,
    dims,
    channels: typeof channels === 'number' ? channels : null,
    reduction: dims && layout ? reductionOf(dims, layout, imageSize(graph)) : null,
    layout,
    tokens,
  };
}

const CHANNEL_AXIS: Readonly<Record<Layout, number>> = {
  NCTHW: 1,
  NTHWC: 4,
  NCHW: 1,
  NHWC: 3,
  NLC: 2,
  NCL: 1,
  NC: 1,
};

/** The layout of an input by its sizes, and that of a tensor inside whose sizes are those of the image divided by one stride. */
function guessLayout(graph: Graph, value: Value, dims: readonly Dim[]): Layout | null {
  const layout = likelyLayout(dims);
  if (!value.producer || layout === null) return layout;
  const [image, map] = [imageSize(graph), mapOf(dims, layout)];
  if (image === undefined || isAttention(graph, value, dims.length)) return null;
  const strides = image.map((size, axis) => {
    const stride = strideOf(size, map[axis] as number);
    return Math.ceil(size / stride) === map[axis] ? stride : NaN;
  });
  return strides[0] === strides[1] ? layout : null;
}

function reductionOf(
  dims: readonly Dim[],
  layout: Layout,
  image: ReturnType<typeof imageSize>,
): number | null {
  if (layout !== 'NCHW' && layout !== 'NHWC') return null;
  const [height] = mapOf(dims, layout);
  return typeof height !== 'number' || image === undefined || height <= 1 ? null : strideOf(image[0], height);
}

function mapOf(dims: readonly Dim[], layout: Layout): readonly Dim[] {
  return layout === 'NCHW' ? dims.slice(2) : dims.slice(1, -1);
}

/**
 * The nominal stride of a map. It is a power of two, also if sizes are rounded up (240 → 8) or unpadded convolutions leave odd ones
 * (Inception: 299 → 8). It is another whole number only if nothing else divides the image so (patches of 14).
 */
function strideOf(image: number, size: number): number {
  const ratio = image / size;
  const power = 2 ** Math.round(Math.log2(ratio));
  return Number.isInteger(ratio) && Math.ceil(image / power) !== size ? ratio : power;
}
