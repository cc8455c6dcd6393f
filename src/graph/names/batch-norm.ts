/**
 * Convolutions into which an exporter folded the BatchNorm behind them. Such a node stands under the
 * convolution's name but holds the BatchNorm's value (names.md §5.8: the one way in which a leaf name lies).
 */
import type { Node } from '../graph.js';
import { joinPath, splitPath, type Place } from './module-path.js';

const CONVOLUTIONS = new Set(['Conv', 'ConvTranspose']);

export function isConvolution(node: Node): boolean {
  return CONVOLUTIONS.has(node.opType);
}

/**
 * Whether a convolution may hold more than the module it is named after. Only a weight that still carries the
 * module's own name (`conv1.weight`) proves that nothing was folded into it: exporters and optimisers give a
 * computed weight a new name (`onnx::Conv_497`).
 */
export function mayHoldBatchNorm(node: Node, place: Place): boolean {
  if (!isConvolution(node) || place.scheme === 'dynamo') return false;
  let weight = node.inputs[1];
  // Equal initializers are shared through Identity nodes; the name then is that of an equal tensor.
  while (weight?.producer?.opType === 'Identity') weight = weight.producer.inputs[0];
  return weight === undefined || !/\.weight(_\w+)?$/.test(weight.name);
}

/**
 * Names that the BatchNorm behind a convolution of this name usually has.
 *
 * @param isPresent - Whether a module of a path still has a node of its own.
 */
export function batchNormNames(convolution: string, isPresent: (path: string) => boolean): string[] {
  const [parent, atom] = splitPath(convolution);
  const beside = (name: string | number): string => joinPath(parent, String(name));
  if (/^\d+$/.test(atom)) return numberedNames(Number(atom), beside, isPresent);
  const match = /^(conv|convolution)(\d{0,3})$/.exec(atom);
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
