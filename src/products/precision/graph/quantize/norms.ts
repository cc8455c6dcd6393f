/** Norms behind layers that the weights and the bias of the layer can hold, so that both are one node in 8 bits. */
import { ELEMENT_TYPE } from '../../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../../onnx/graph/graph.js';
import { placeOf } from '../../../../onnx/graph/module-path.js';
import { addedNodes, type Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { findConstant, type AttributesOf, type LayerConstant } from '../constants.js';
import type { FloatConstant } from './roundings.js';

/** A BatchNormalization that only reads what one layer gives. */
export interface LayerNorm {
  readonly node: Node;
  readonly result: Value;
  /** Gamma, beta, mean and variance: a number for each channel. */
  readonly constants: readonly LayerConstant[];
  readonly epsilon: number;
}

/** Layers with one weight whose channels are those of the norm behind them. */
const FOLDABLE: ReadonlySet<string> = new Set(['Conv', 'ConvTranspose', 'Gemm']);

const PARAMETERS = 4;
/** ONNX's default. */
const EPSILON = 1e-5;

/** The norm behind a layer, if nothing else reads the layer's result, and no name would get another value. */
export function findNorm(
  rewrite: Rewrite,
  layer: Node,
  weight: Value,
  channels: number,
  attributesOf: AttributesOf,
): LayerNorm | undefined {
  const { cut, edits, outputs } = rewrite;
  const made = layer.outputs[0];
  const node = made?.uses[0];
  if (!node || made.uses.length > 1 || node.inputs.indexOf(made) !== 0) return undefined;
  if (!FOLDABLE.has(layer.opType) || node.domain !== '' || node.opType !== 'BatchNormalization')
    return undefined;
  const isAsked = outputs.some(({ value, tensor }) => value === made || tensor === made.name);
  const isChanged = edits.has(layer) || edits.has(node) || [...edits.values()].some(({ instead }) => instead);
  if (isAsked || isChanged || !cut.nodes.has(node)) return undefined;
  if (addedNodes(rewrite).some(({ inputs }) => inputs.includes(made.name))) return undefined;
  if (!keepsNames(layer, node, weight)) return undefined;
  const attributes = attributesOf(node);
  const [result, ...statistics] = node.outputs;
  if (!result || statistics.some(Boolean) || (attributes.get('training_mode')?.int ?? 0) !== 0)
    return undefined;
  const constants = node.inputs.slice(1).flatMap((value): LayerConstant[] => {
    const found = value && findConstant(value, attributesOf);
    const isPlain = found?.tensor.elemType === ELEMENT_TYPE.float32 && found.tensor.dims.length === 1;
    return isPlain && found.tensor.dims[0] === channels ? [found] : [];
  });
  if (constants.length < PARAMETERS) return undefined;
  return { node, result, constants, epsilon: attributes.get('epsilon')?.float ?? EPSILON };
}

/**
 * Whether every name means the same or nothing afterwards. The folded node has the norm's name and result. The module of the layer, and
 * those that end in it, are found by the name of its weight (names/batch-norm), so that they are refused. Names of other forms might
 * have modules that nobody knows to end in the layer.
 */
function keepsNames(layer: Node, norm: Node, weight: Value): boolean {
  if (layer.name === '' && norm.name !== '') return false;
  const [place, after] = [placeOf(layer), placeOf(norm)];
  if (place || after)
    return place?.scheme === 'torchscript' && after !== undefined && weight.name === `${place.path}.weight`;
  return ![layer.name, layer.outputs[0]!.name].some((name) => /[./]/.test(name));
}

/** The weights and the bias of a layer with its norm in them. Computed in float64. */
export function foldNorm(
  { data, dims }: FloatConstant,
  bias: Float32Array | undefined,
  axis: number,
  [gamma, beta, mean, variance]: readonly Float32Array[],
  epsilon: number,
): { readonly weights: FloatConstant; readonly bias: Float32Array } {
  const factors = Float64Array.from(gamma!, (x, channel) => x / Math.sqrt(variance![channel]! + epsilon));
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  return {
    weights: { data: data.map((x, at) => x * factors[Math.floor(at / inner) % factors.length]!), dims },
    bias: Float32Array.from(
      factors,
      (factor, channel) => ((bias?.[channel] ?? 0) - mean![channel]!) * factor + beta![channel]!,
    ),
  };
}
