/**
 * Convolutions and linear layers that hold the BatchNorm after them: weight = W · s and bias = (b − mean) · s + beta, with
 * s = gamma / sqrt(var + eps).
 */
import type { Node, Value } from '../graph.js';
import { batchNormNames } from '../names/batch-norm.js';
import { classesOf, firstPlaceOf, isUnder, placeOf, splitPath } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import { isMadeUp, relocate } from './parameter-names.js';
import { siteOf, type Site } from './site.js';

/** A layer with a BatchNorm folded into it. */
export interface FoldedLayer {
  readonly node: Node;
  /** The path of the layer's module, whose weight and bias went in. */
  readonly layer: string;
  /** Paths that the norm's module may have, as far as the file tells: one with `isProven`. */
  readonly norms: readonly string[];
  /** Whether the file says which norm it is. */
  readonly isProven: boolean;
  readonly weight: Site;
  /** Undefined if the exporter dropped a bias of zeros. */
  readonly bias: Site | undefined;
  /** The axis of the weight, as the file has it, that holds output channels. */
  readonly axis: number;
  /** Groups of a transposed convolution, whose output channels are `dims[1] * groups`; else 1. */
  readonly groups: number;
  /** The order of the weight's axes in the file; null as in torch. */
  readonly perm: readonly number[] | null;
}

/** The number of output channels of a folded layer. */
export function channelsOf({ weight, axis, groups }: FoldedLayer): number {
  return weight.initializer.initializer!.dims[axis]! * groups;
}

/** Reads a node as a folded layer. */
export function foldedLayer(node: Node): FoldedLayer | undefined {
  if (!operatorOf(node)?.isLayer) return undefined;
  const weight = siteOf(node, 1);
  const bias = siteOf(node, 2);
  if (!weight || (node.inputs[2] && !bias)) return undefined;
  const names = foldedNames(node);
  if (!names) return undefined;
  const isTransposed = node.opType === 'Gemm' && node.scanned.layout.get('transB') !== 1;
  const isDeconvolution = node.opType === 'ConvTranspose';
  return {
    node,
    ...names,
    weight,
    bias,
    axis: isTransposed || isDeconvolution ? 1 : 0,
    groups: isDeconvolution ? (node.scanned.layout.get('group') ?? 1) : 1,
    perm: isTransposed ? [1, 0] : null,
  };
}

function foldedNames(node: Node): Pick<FoldedLayer, 'layer' | 'norms' | 'isProven'> | undefined {
  const [, weight, bias] = node.inputs;
  const place = placeOf(node);
  if (!place) return undefined;
  if (place.scheme === 'dynamo') {
    // The node is placed in the norm, and its weight keeps the name of the layer's.
    const layer = /^(.+)\.weight$/.exec(ownName(weight!, place.path))?.[1];
    if (layer === undefined || (bias?.name !== `${weight!.name}_bias` && !isNorm(node))) return undefined;
    return place.path === layer
      ? { layer, norms: batchNormNames(layer, () => false), isProven: false }
      : { layer, norms: [place.path], isProven: true };
  }
  // TorchScript folds nothing else into a weight. A bias or a weight under its own name was not touched.
  if (!isMadeUp(weight!.name) || (bias && !isMadeUp(bias.name))) return undefined;
  // A linear layer's weight is made up if it was transposed, too; folded ones have both.
  if (node.opType === 'Gemm' && !bias) return undefined;
  const first = firstPlaceOf(node);
  const layer = (first ?? place).path;
  // The model's own code ran it. Files of other frameworks look like that, and no module has a name for the weight.
  if (layer === '') return undefined;
  if (first && first.path !== place.path) return { layer, norms: [place.path], isProven: true };
  return { layer, norms: batchNormNames(layer, () => false), isProven: false };
}

/**
 * What a weight is called beside the norm at a path. dynamo's exporter merges equal weights, such as zeros, so its name may be that of an
 * equal layer of another module.
 */
function ownName({ name, uses }: Value, norm: string): string {
  const [parent] = splitPath(norm);
  return uses.length > 1 && !isUnder(name, parent) ? (relocate(name, parent)[0] ?? name) : name;
}

/** Whether dynamo says that a node computes a BatchNorm. */
function isNorm(node: Node): boolean {
  return /batch_?norm/i.test(classesOf(node).at(-2) ?? '');
}
