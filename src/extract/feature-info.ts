/** What is known of a feature before running: dtype, dims, channels, reduction. */
import { channelAxis, type Layout } from '../graph/layout.js';
import type { Value } from '../graph/graph.js';
import type { Dim } from '../onnx/scan-value.js';
import type { RewriteOutput } from '../rewrite/rewrite.js';
import type { SessionValue } from '../runtime/protocol.js';
import { describeType, describeValue, type TensorInfo } from './value-info.js';

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
export function describeOutput(value: Value, session: SessionValue | undefined): TensorInfo {
  const stated = describeValue(value);
  if (!session || (stated.dtype !== null && stated.dims !== null)) return stated;
  // onnxruntime reports [] for scalars and for unknown rank alike, so [] says nothing.
  const dims: readonly Dim[] | null = session.dims.length === 0 ? null : session.dims.map(openDim);
  return { name: stated.name, dtype: stated.dtype ?? session.dtype, dims: stated.dims ?? dims };
}

/** onnxruntime names sizes that it cannot infer `unk__0`, or leaves them blank. */
function openDim(size: number | string): Dim {
  return typeof size === 'string' && (size === '' || size.startsWith('unk__')) ? null : size;
}

/** Describes an output; `input` is the image input that reductions refer to. */
export function describeFeature(
  output: RewriteOutput,
  session: SessionValue | undefined,
  input: TensorInfo | undefined,
): FeatureInfo {
  const { key, value, type } = output;
  const { dtype, dims } = type ? describeType(key, type) : describeOutput(value, session);
  return describeTensor(key, value, { dtype, dims, layout: output.layout }, input);
}

/** Describes a tensor by its type; the layout is read from the graph unless it is given. */
export function describeTensor(
  name: string,
  value: Value,
  type: Pick<TensorInfo, 'dtype' | 'dims'> & { readonly layout?: Layout | undefined },
  input: TensorInfo | undefined,
): FeatureInfo {
  const { dtype, dims } = type;
  const layout = type.layout ?? (dims && layoutOf(value, dims));
  const channels = dims && layout && dims[CHANNEL_AXIS[layout]];
  return {
    name,
    tensor: value.name,
    dtype,
    dims,
    channels: typeof channels === 'number' ? channels : null,
    reduction: dims && layout ? reductionOf(dims, layout, input) : null,
    layout,
  };
}

const CHANNEL_AXIS: Readonly<Record<Layout, number>> = { NCHW: 1, NHWC: 3, NLC: 2, NCL: 1, NC: 1 };

/** How the axes of a value are meant: by the operators that made it, else by its sizes. */
export function layoutOf(value: Value, dims: readonly Dim[]): Layout | null {
  if (dims.length === 2) return 'NC';
  if (dims.length !== 3 && dims.length !== 4) return null;
  const axis = channelAxis(value, dims.length);
  if (dims.length === 3) return axis === 1 ? 'NCL' : 'NLC';
  if (axis === 1) return 'NCHW';
  if (axis === 3) return 'NHWC';
  // Equal sizes in the middle tell [N, H, W, C].
  const [, a, b, c] = dims;
  return typeof a === 'number' && a === b && b !== c ? 'NHWC' : 'NCHW';
}

function reductionOf(dims: readonly Dim[], layout: Layout, input: TensorInfo | undefined): number | null {
  if (layout !== 'NCHW' && layout !== 'NHWC') return null;
  const height = dims[layout === 'NCHW' ? 2 : 1];
  const given = imageSizeOf(input)?.[0];
  if (typeof height !== 'number' || given === undefined || height <= 1) return null;
  const ratio = given / height;
  // Unpadded convolutions leave odd sizes (Inception: 299 → 8); the nominal stride is the power of two beside it.
  return Number.isInteger(ratio) ? ratio : 2 ** Math.round(Math.log2(ratio));
}

/** Height and width of an image input, `[N, C, H, W]` or `[N, H, W, C]` with up to four channels. */
export function imageSizeOf(input: TensorInfo | undefined): [height: number, width: number] | undefined {
  const { dims } = input ?? {};
  if (dims?.length !== 4) return undefined;
  const isLast =
    typeof dims[3] === 'number' && dims[3] <= 4 && !(typeof dims[1] === 'number' && dims[1] <= 4);
  const [height, width] = isLast ? [dims[1], dims[2]] : [dims[2], dims[3]];
  return typeof height === 'number' && typeof width === 'number' ? [height, width] : undefined;
}
