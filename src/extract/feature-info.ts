/** What is known of a feature before running: dtype, dims, channels, reduction. */
import type { Node, Value } from '../graph/graph.js';
import type { Dim } from '../onnx/scan-value.js';
import type { SessionValue } from '../runtime/protocol.js';
import { describeValue, type TensorInfo } from './value-info.js';

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

/** Describes a feature; `input` is the image input that reductions refer to. */
export function describeFeature(
  key: string,
  value: Value,
  info: TensorInfo,
  input: TensorInfo | undefined,
): FeatureInfo {
  const { dims } = info;
  const layout = dims?.length === 4 ? mapLayout(value, dims) : undefined;
  const channels = dims && channelOf(dims, layout);
  return {
    ...info,
    name: key,
    tensor: value.name,
    channels: typeof channels === 'number' ? channels : null,
    reduction: dims && layout ? reductionOf(dims, layout, input) : null,
  };
}

function channelOf(dims: readonly Dim[], layout: 'NCHW' | 'NHWC' | undefined): Dim {
  if (dims.length === 4) return dims[layout === 'NHWC' ? 3 : 1] ?? null;
  return dims.length === 3 ? (dims[2] ?? null) : dims.length === 2 ? (dims[1] ?? null) : null;
}

const SPATIAL = new Set([
  'Conv',
  'ConvTranspose',
  'MaxPool',
  'AveragePool',
  'GlobalAveragePool',
  'BatchNormalization',
]);
const ELEMENTWISE = new Set([
  'Relu',
  'Add',
  'Mul',
  'Sigmoid',
  'HardSwish',
  'Clip',
  'LeakyRelu',
  'Concat',
  'Gelu',
  'Identity',
]);

/** ONNX's spatial operators are NCHW; without one nearby, equal sizes in the middle tell `[N, H, W, C]` (Swin). */
function mapLayout(value: Value, dims: readonly Dim[]): 'NCHW' | 'NHWC' {
  let node: Node | undefined = value.producer;
  for (let hops = 0; node && hops < 32; hops++) {
    if (SPATIAL.has(node.opType)) return 'NCHW';
    if (!ELEMENTWISE.has(node.opType)) break;
    node = node.inputs.find((input) => input?.producer)?.producer;
  }
  const [, a, b, c] = dims;
  return typeof a === 'number' && a === b && b !== c ? 'NHWC' : 'NCHW';
}

function reductionOf(
  dims: readonly Dim[],
  layout: 'NCHW' | 'NHWC',
  input: TensorInfo | undefined,
): number | null {
  const height = dims[layout === 'NCHW' ? 2 : 1];
  const given = input?.dims?.length === 4 ? input.dims[2] : undefined;
  if (typeof height !== 'number' || typeof given !== 'number' || height <= 1) return null;
  const ratio = given / height;
  // Unpadded convolutions leave odd sizes (Inception: 299 → 8); the nominal stride is the power of two beside it.
  return Number.isInteger(ratio) ? ratio : 2 ** Math.round(Math.log2(ratio));
}
