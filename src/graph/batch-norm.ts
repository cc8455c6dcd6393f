/**
 * Convolutions into which an exporter folded the BatchNorm behind them. Such a node stands under the
 * convolution's name but holds the BatchNorm's value (names.md §5.8: the one way in which a leaf name lies).
 */
import type { Node } from './graph.js';
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

/** Names that a BatchNorm behind a convolution of this name usually has, with the condition that makes it sure. */
export function batchNormNames(convolution: string): { readonly path: string; readonly unlessFree?: string }[] {
  const [parent, atom] = splitPath(convolution);
  if (/^\d+$/.test(atom)) return [{ path: joinPath(parent, String(Number(atom) + 1)) }];
  const match = /^(conv|convolution)(\d*)$/.exec(atom);
  if (!match) return [];
  const number = match[2]!;
  const names = match[1] === 'convolution' ? ['normalization'] : ['bn', 'norm'];
  const same = names.map((name) => ({ path: joinPath(parent, name + number) }));
  if (number === '') return same;
  // DenseNet's layers normalise first (norm1, conv1, norm2, conv2): conv1 then holds norm2, if norm1 is a node.
  const next = { path: joinPath(parent, `norm${Number(number) + 1}`), unlessFree: joinPath(parent, `norm${number}`) };
  return [...same, next];
}

/** The module paths, other than its own, whose weights a node reads: `layer1.0.conv1` for a node in `layer1.0.bn1`. */
export function weightModules(node: Node): string[] {
  return node.inputs.flatMap((input) => {
    const match = input?.initializer && /^(.+)\.weight$/.exec(input.name);
    return match ? [match[1]!] : [];
  });
}
