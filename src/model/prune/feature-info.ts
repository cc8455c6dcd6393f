/** Describes a feature before the model runs: dtype, dims, channels, reduction. */
import { channelAxis, type Layout } from '../../graph/layout.js';
import type { Graph, Value } from '../../graph/graph.js';
import type { Dim } from '../../onnx/scan/scan-value.js';
import type { RewriteOutput } from '../../graph/rewrite/rewrite.js';
import type { InferredType } from '../open/model-answers.js';
import { describeType, describeValue } from '../open/value-info.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';

export type { Layout } from '../../graph/layout.js';

/** An output of a feature extractor. */
export interface FeatureInfo extends TensorInfo {
  /** The output key. */
  readonly name: string;
  /** The tensor of the model that the output holds. */
  readonly tensor: string;
  /** The channels of a map `[N, C, H, W]` (or `[N, H, W, C]`), of tokens `[N, L, C]` or of a vector `[N, C]`; null if unknown. */
  readonly channels: number | null;
  /** The input height divided by the height of the map, as in timm: 32 for `layer4` of a ResNet; null if it is not a map. */
  readonly reduction: number | null;
  /** The order of the axes: N batch, C channels, H and W the map, L tokens; null if unknown and for other ranks. */
  readonly layout: Layout | null;
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

/** onnxruntime names a size that it cannot infer `unk__0`, or leaves the name empty. */
function openDim(size: number | string): Dim {
  return typeof size === 'string' && (size === '' || size.startsWith('unk__')) ? null : size;
}

/** Describes an output of a rewritten model. */
export function describeFeature(
  graph: Graph,
  output: RewriteOutput,
  inferred: InferredType | undefined,
): FeatureInfo {
  const { key, value, type } = output;
  const { dtype, dims } = type ? describeType(key, type) : describeOutput(value, inferred);
  return describeTensor(graph, key, value, { dtype, dims, layout: output.layout });
}

/** Describes a tensor by its type. The layout is read from the graph unless the type states it. */
export function describeTensor(
  graph: Graph,
  name: string,
  value: Value,
  type: Pick<TensorInfo, 'dtype' | 'dims'> & { readonly layout?: Layout | undefined },
): FeatureInfo {
  const { dtype, dims } = type;
  const layout = type.layout ?? (dims && (provenLayout(graph, value, dims) ?? likelyLayout(dims)));
  const channels = dims && layout && dims[CHANNEL_AXIS[layout]];
  return {
    name,
    tensor: value.name,
    dtype,
    dims,
    channels: typeof channels === 'number' ? channels : null,
    reduction: dims && layout ? reductionOf(dims, layout, imageSize(graph)) : null,
    layout,
  };
}

const CHANNEL_AXIS: Readonly<Record<Layout, number>> = { NCHW: 1, NHWC: 3, NLC: 2, NCL: 1, NC: 1 };

/** The order of the axes of a value, proven by the operators that compute it; null if they prove no order. */
export function provenLayout(graph: Graph, value: Value, dims: readonly Dim[]): Layout | null {
  if (dims.length === 2) return 'NC';
  if (dims.length !== 3 && dims.length !== 4) return null;
  const axis = channelAxis(graph, value, dims.length);
  if (dims.length === 3) return axis === 2 ? 'NLC' : axis === 1 ? 'NCL' : null;
  return axis === 1 ? 'NCHW' : axis === 3 ? 'NHWC' : null;
}

/** The probable order of four axes, for listings: two equal sizes are those of a map, and up to four channels are colours. */
function likelyLayout(dims: readonly Dim[]): Layout | null {
  if (dims.length !== 4) return null;
  const [, a, b, c] = dims;
  if (typeof b === 'number' && a !== c) {
    if (a === b) return 'NHWC';
    if (b === c) return 'NCHW';
  }
  const isFewer = (size: Dim | undefined): boolean => typeof size === 'number' && size <= 4;
  return isFewer(a) === isFewer(c) ? null : isFewer(a) ? 'NCHW' : 'NHWC';
}

type Size = readonly [height: number, width: number];

function reductionOf(dims: readonly Dim[], layout: Layout, image: Size | undefined): number | null {
  if (layout !== 'NCHW' && layout !== 'NHWC') return null;
  const height = dims[layout === 'NCHW' ? 2 : 1];
  if (typeof height !== 'number' || image === undefined || height <= 1) return null;
  const ratio = image[0] / height;
  // Unpadded convolutions leave odd sizes (Inception: 299 → 8). The nominal stride is the nearest power of two.
  return Number.isInteger(ratio) ? ratio : 2 ** Math.round(Math.log2(ratio));
}

/** An image input. */
export interface ImageAxes {
  readonly value: Value;
  /** The axis of its height; that of its width comes next. */
  readonly axis: number;
}

/** The image input: an input with four axes, preferably with three channels. */
export function imageInput(graph: Graph): ImageAxes | undefined {
  // Every value of a listing asks, and a graph may have as many inputs as values.
  if (!IMAGE_INPUTS.has(graph)) IMAGE_INPUTS.set(graph, findImageInput(graph));
  return IMAGE_INPUTS.get(graph);
}

const IMAGE_INPUTS = new WeakMap<Graph, ImageAxes | undefined>();

function findImageInput(graph: Graph): ImageAxes | undefined {
  const sizes = graph.inputs.flatMap((value) => {
    const { dims } = describeValue(value);
    return dims?.length === 4 ? [{ value, dims, layout: likelyLayout(dims) }] : [];
  });
  const isColour = ({ dims }: { readonly dims: readonly Dim[] }): boolean => dims[1] === 3 || dims[3] === 3;
  const image = sizes.find(isColour) ?? sizes.find(({ layout }) => layout !== null) ?? sizes[0];
  return image && { value: image.value, axis: image.layout === 'NHWC' ? 1 : 2 };
}

/** Height and width of the image input, if the file states them. */
export function imageSize(graph: Graph): Size | undefined {
  const image = imageInput(graph);
  if (!image) return undefined;
  const [height, width] = describeValue(image.value).dims!.slice(image.axis);
  return typeof height === 'number' && typeof width === 'number' ? [height, width] : undefined;
}
