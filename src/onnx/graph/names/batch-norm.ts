/**
 * Convolutions into which an exporter folded the BatchNorm after them. Such a node has the convolution's name but holds the
 * BatchNorm's value: on eight torchvision models, the only way in which a leaf's name denotes a wrong value.
 */
import type { Node, Value } from '../graph.js';
import { joinPath, placeOf, splitPath, type Place } from '../module-path.js';

const CONVOLUTIONS = new Set(['Conv', 'ConvTranspose']);

export function isConvolution(node: Node): boolean {
  return CONVOLUTIONS.has(node.opType);
}

/** Weights that ONNX Runtime's optimiser computed from a convolution and the operator after it. */
const FUSED_WEIGHT = /^Conv(?:Bn|Mul|Add)Fusion_/;

/**
 * Whether a convolution may hold more than the module it is named after. Folding computes a new weight and a new bias, and
 * exporters and optimisers give both a new name (`onnx::Conv_497`). So a weight or a bias under the module's own name
 * disproves it, and so does a missing bias.
 */
export function mayHoldBatchNorm(node: Node, place: Place): boolean {
  if (!isConvolution(node) || place.isFolded) return place.isFolded === true;
  // PT2E folds before dynamo's exporter runs, which then sees a convolution.
  if (place.scheme === 'dynamo') return node.inputs[2]?.name === `${place.path}.weight_bias`;
  // A convolution placed by the tensor of what was fused into it (`/bn1/BatchNormalization_output_0`) is that module.
  if (!place.operation.startsWith('Conv')) return false;
  const [, weight, bias] = node.inputs;
  if ([weight, bias].some((value) => value && FUSED_WEIGHT.test(value.name))) return true;
  // The bias of an equal tensor proves nothing: a BatchNorm that shifts by zero leaves a bias like many others.
  if (!bias || storedWeight(bias).name.startsWith(`${place.path}.`)) return false;
  if (weight === undefined) return true;
  const { name, producer } = storedWeight(weight);
  // The exporter writes what the module itself computes of constants in the module, and what it folded outside.
  if (producer?.opType === 'Constant' && placeOf(producer)?.path === place.path) return false;
  // The model's own code calls the convolution with a parameter of any name.
  const isOwn = place.path === '' && /^[A-Za-z_][\w.]*$/.test(name);
  return !isOwn && !name.endsWith('.weight');
}

/** The constant behind a weight. The exporter shares equal weights through Identity nodes: the name is then that of an equal tensor. */
function storedWeight(value: Value): Value {
  const { producer } = value;
  return (producer?.opType === 'Identity' ? producer.inputs[0] : undefined) ?? value;
}

/** Names that the BatchNorm after a convolution of this name usually has. Some depend on which modules still have nodes. */
export function batchNormNames(convolution: string, isPresent: (path: string) => boolean): string[] {
  const [parent, atom] = splitPath(convolution);
  const beside = (name: string | number): string => joinPath(parent, String(name));
  if (/^\d+$/.test(atom)) return numberedNames(Number(atom), beside, isPresent);
  const match = /^(conv|convolution)(\d{0,2})$/.exec(atom);
  if (!match) return [];
  const number = match[2]!;
  if (number === '') return (match[1] === 'convolution' ? ['normalization'] : ['bn', 'norm']).map(beside);
  return ['bn', 'norm'].map((norm) => {
    // Blocks that normalise first (norm1, conv1, norm2, conv2) keep the first one as a node; conv1 then holds norm2.
    const isFirst = Array.from({ length: Number(number) }, (_, i) => i + 1).some((k) =>
      isPresent(beside(`${norm}${k}`)),
    );
    return beside(`${norm}${Number(number) + (isFirst ? 1 : 0)}`);
  });
}

/** In a Sequential: the next child, unless the one after that vanished too and might be it. */
function numberedNames(
  index: number,
  beside: (name: number) => string,
  isPresent: (path: string) => boolean,
): string[] {
  const isLast = !Array.from({ length: 8 }, (_, i) => index + 2 + i).some((later) =>
    isPresent(beside(later)),
  );
  return isLast || isPresent(beside(index + 2)) ? [beside(index + 1)] : [];
}

/** The module paths, other than its own, whose weights a node reads: `layer1.0.conv1` for a node in `layer1.0.bn1`. */
export function weightModules(node: Node): string[] {
  return node.inputs.flatMap((input) => {
    const match = input?.initializer && /^(.+)\.weight$/.exec(input.name);
    return match ? [match[1]!] : [];
  });
}
