/** What is known of a feature before running: dtype, dims, channels, reduction. */
import { channelAxis, type Layout } from '../graph/layout.js';
import type { Graph, Value } from '../graph/graph.js';
import type { Dim } from '../onnx/scan-value.js';
import type { RewriteOutput } from '../graph/rewrite/rewrite.js';
import type { SessionValue } from '../runtime/protocol.js';
import { describeType, describeValue } from './value-info.js';
import type { TensorInfo } from '../tensor/tensor-info.js';

export type { Layout } from '../graph/layout.js';

/** An output of a feature extractor. */
export interface FeatureInfo extends TensorInfo {
  /** The output key. */
  readonly name: string;
  /** The tensor of the model that it holds. */
  readonly tensor: string;
  /** Channels: of a map `[N, C, H, W]` (or `[N, H, W, C]`), of tokens `[N, L, C]`, of a vector `[N, C]`; null if unknown. */
  readonly channels: number | null;
  /** Input height divided by a map's height, as timm counts it: 32 for a ResNet's `layer4`; null if it is no map. */
  readonly reduction: number | null;
  /** Where its axes stand: N batch, C channels, H and W the map, L tokens; null for other ranks. */
  readonly layout: Layout | null;
}

/** The file's own statement where it has one, else onnxruntime's. */
export function describeOutput(
  value: Value,
  session: (SessionValue & { readonly isScalar?: boolean }) | undefined,
): TensorInfo {
  const stated = describeValue(value);
  if (!session || (stated.dtype !== null && stated.dims !== null)) return stated;
  // onnxruntime reports [] for scalars and for unknown rank alike, so [] says nothing.
  const dims: readonly Dim[] | null =
    session.dims.length === 0 && session.isScalar !== true ? null : session.dims.map(openDim);
  return { name: stated.name, dtype: stated.dtype ?? session.dtype, dims: stated.dims ?? dims };
}

/** onnxruntime names sizes that it cannot infer `unk__0`, or leaves them blank. */
function openDim(size: number | string): Dim {
  return typeof size === 'string' && (size === '' || size.startsWith('unk__')) ? null : size;
}

/** Describes an output. */
export function describeFeature(
  graph: Graph,
  output: RewriteOutput,
  session: SessionValue | undefined,
): FeatureInfo {
  const { key, value, type } = output;
  const { dtype, dims } = type ? describeType(key, type) : describeOutput(value, session);
  return describeTensor(graph, key, value, { dtype, dims, layout: output.layout });
}

/** Describes a tensor by its type; the layout is read from the graph unless it is given. */
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

/** How the axes of a value are meant, by the operators that made it; null where they do not tell. */
export function provenLayout(graph: Graph, value: Value, dims: readonly Dim[]): Layout | null {
  if (dims.length === 2) return 'NC';
  if (dims.length !== 3 && dims.length !== 4) return null;
  const axis = channelAxis(graph, value, dims.length);
  if (dims.length === 3) return axis === 2 ? 'NLC' : axis === 1 ? 'NCL' : null;
  return axis === 1 ? 'NCHW' : axis === 3 ? 'NHWC' : null;
}

/** How they are probably meant, for listings: two equal sizes are those of a map, and a few channels are colours. */
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
  // Unpadded convolutions leave odd sizes (Inception: 299 → 8); the nominal stride is the power of two beside it.
  return Number.isInteger(ratio) ? ratio : 2 ** Math.round(Math.log2(ratio));
}

/** Height and width of the model's image input: of four axes, with three colours if there is one. */
export function imageSize(graph: Graph): Size | undefined {
  const sizes = graph.inputs.flatMap((value) => {
    const { dims } = describeValue(value);
    return dims?.length === 4 ? [{ dims, layout: likelyLayout(dims) }] : [];
  });
  const isColour = ({ dims }: { readonly dims: readonly Dim[] }): boolean => dims[1] === 3 || dims[3] === 3;
  const image = sizes.find(isColour) ?? sizes.find(({ layout }) => layout !== null) ?? sizes[0];
  if (!image) return undefined;
  const [height, width] = image.layout === 'NHWC' ? image.dims.slice(1) : image.dims.slice(2);
  return typeof height === 'number' && typeof width === 'number' ? [height, width] : undefined;
}
