/** What lowering a model's precision did. */
import type { Node } from '../../../onnx/graph/graph.js';
import { describeNode } from '../../../onnx/graph/rewrite/prune.js';

/** What {@link lowerPrecision} did. */
export interface LoweringReport {
  readonly precision: 'float16' | 'int8';
  /** The float32 constants of the model. */
  readonly tensors: number;
  /** Those that nodes read in the lower precision now. */
  readonly converted: number;
  /** The nodes that compute in it. */
  readonly nodes: number;
  /**
   * The nodes that stay in float32, in execution order. Nodes without a reason, which only read from these, are left out; with int8,
   * so is everything but products with constants.
   */
  readonly kept: readonly KeptNode[];
  /** float16: constants with finite values above 65,504. They stay in float32, with the nodes that read them. */
  readonly overflows: readonly {
    readonly tensor: string;
    readonly count: number;
    readonly largest: number;
  }[];
  /** float16: converted constants with values below 2^-14: how many became 0, and how many keep fewer than 11 bits. */
  readonly underflows: readonly {
    readonly tensor: string;
    readonly zeros: number;
    readonly subnormals: number;
    readonly elements: number;
  }[];
  /** Size of the model with its weights, in bytes. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** float16: the number of casts between float32 and float16. */
  readonly casts: number;
  /** int8: what was measured on the samples, for each output; null without samples. */
  readonly measured: readonly MeasuredCosine[] | null;
}

/** How near an output in lower precision is to the one in float32. */
export interface MeasuredCosine {
  /** The output key. */
  readonly output: string;
  readonly samples: number;
  /** The least cosine of a sample. */
  readonly least: number;
  readonly mean: number;
}

/** A node that stays in float32. */
export interface KeptNode {
  readonly node: string;
  readonly operator: string;
  readonly reason: string;
  /** int8, with samples: the least cosine when this product alone is computed in 8 bits; for those that lose too much. */
  readonly cosine?: number;
}

/** Describes the nodes that stay in float32, in execution order. */
export function listKept(
  reasons: ReadonlyMap<Node, string>,
  cosines: ReadonlyMap<Node, number> = new Map(),
): KeptNode[] {
  return [...reasons]
    .toSorted(([a], [b]) => a.index - b.index)
    .map(([node, reason]) => describeKept(node, reason, cosines.get(node)));
}

function describeKept(node: Node, reason: string, cosine: number | undefined): KeptNode {
  const operator = node.domain === '' ? node.opType : `${node.domain}.${node.opType}`;
  return { node: describeNode(node), operator, reason, ...(cosine !== undefined && { cosine }) };
}
