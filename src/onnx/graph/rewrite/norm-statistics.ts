/**
 * BatchNorm statistics in a graph: taps on what norms normalise, and norms that take their statistics from the batch or from inputs.
 * The ordinary inference operator computes them all (docs/decisions/030-batch-norm.md).
 */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import type { NewNode, NewValue } from '../../file/wire/write-model.js';
import type { Node, Value } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { describeNode } from './prune.js';
import { RewriteChanges } from './rewrite-changes.js';
import type { Rewrite, RewriteOutput } from './rewrite.js';

/** A BatchNorm of the source network. */
export interface Norm {
  /** The BatchNormalization, or the layer into which the norm was folded. */
  readonly node: Node;
  /** What it normalises, `[N, C, …]`. */
  readonly input: Value;
  readonly channels: number;
  /** ONNX's number of the statistics' element type. */
  readonly elemType: number;
  /** The norm to add after a layer; undefined for a BatchNormalization of the graph. */
  readonly added: AddedNorm | undefined;
}

/** The parameters of a norm that is added, one number per channel. */
export interface AddedNorm {
  readonly gamma: Float64Array;
  readonly beta: Float64Array;
  readonly epsilon: number;
  /** Undefined if the layer still holds the norm: it is added only to normalise by other statistics. */
  readonly statistics: { readonly mean: Float64Array; readonly variance: Float64Array } | undefined;
}

/** A norm in a rewrite. */
export interface NormUse {
  readonly norm: Norm;
  /** Where its statistics come from: the model, the batch (as in train mode), or inputs of the rewritten graph. */
  readonly from: 'model' | 'batch' | 'inputs';
  /** Whether the moments of what it normalises are outputs. */
  readonly isTapped: boolean;
}

/** The outputs that hold the moments of what a norm normalises. */
export interface NormTap {
  /** `[C]` mean over rows and positions, rounded to float32 (or float64). */
  readonly mean: string;
  /** `[C]` what the mean lacks: the mean of the deviations from it. */
  readonly rest: string;
  /** `[C]` mean of the squared deviations from the rounded mean. */
  readonly variance: string;
  /** Dims of the normalised tensor, int64. */
  readonly shape: string;
}

/** The inputs that hold the statistics of a norm, `[C]` float32 or float64. */
export type NormFeed = Pick<NormTap, 'mean' | 'variance'>;

export interface NormRewrite {
  readonly rewrite: Rewrite;
  readonly taps: ReadonlyMap<Norm, NormTap>;
  readonly feeds: ReadonlyMap<Norm, NormFeed>;
}

/** The slots of a BatchNormalization. */
export const MEAN_SLOT = 3;
export const VARIANCE_SLOT = 4;

/**
 * Gives norms of a rewrite other statistics, and taps what they normalise.
 *
 * @param fetched - The outputs of the rewrite that stay; the others are there so that norms are reached.
 * @throws {@link TapirError} `INPUT_MISMATCH` if the operator set lacks the arithmetic; `GRAPH_INVALID` if a norm cannot be added.
 */
export function withNorms(
  rewrite: Rewrite,
  uses: readonly NormUse[],
  fetched: ReadonlySet<Value> = new Set(),
): NormRewrite {
  const changes = new NormChanges(rewrite);
  for (const use of uses) changes.apply(use);
  return changes.result(rewrite.outputs.filter(({ value }) => fetched.has(value)));
}

/** The type in which moments are computed: halves are too coarse. */
export function momentsType({ elemType }: Norm): 'float32' | 'float64' {
  return elemType === ELEMENT_TYPE.float64 ? 'float64' : 'float32';
}

class NormChanges {
  readonly #rewrite: Rewrite;
  readonly #changes: RewriteChanges;
  readonly #back: NewNode[] = [];
  readonly #inputs: NewValue[] = [];
  readonly #outputs: RewriteOutput[] = [];
  readonly #taps = new Map<Norm, NormTap>();
  readonly #feeds = new Map<Norm, NormFeed>();

  constructor(rewrite: Rewrite) {
    this.#rewrite = rewrite;
    this.#changes = new RewriteChanges(rewrite);
  }

  apply({ norm, from, isTapped }: NormUse): void {
    const { cut, names } = this.#rewrite;
    const nodes = new NodeBuilder(names, 'norm', opsetOf(cut.graph), refuse);
    const readers = this.#readersOf(norm);
    const isComputed = readers.length > 0;
    const moments =
      isTapped || (from === 'batch' && isComputed) ? addMoments(nodes, norm, this.#typeOf(norm)) : undefined;
    if (isTapped) {
      const rest = nodes.reshape(addMean(nodes, moments!.deviation), [-1]);
      this.#tap(norm, { ...moments!, rest, shape: nodes.add('Shape', [norm.input.name]) });
    }
    if (isComputed) {
      const given = from === 'batch' ? moments : from === 'inputs' ? this.#feed(norm) : undefined;
      const { added } = norm;
      if (added) {
        if (given || added.statistics) this.#addNorm(nodes, norm, added, readers, given);
      } else if (given) {
        const { inputs } = this.#changes.editOf(norm.node);
        inputs.set(MEAN_SLOT, cast(nodes, given.mean, norm));
        inputs.set(VARIANCE_SLOT, cast(nodes, given.variance, norm));
      }
    }
    this.#changes.tensors.push(...nodes.tensors);
    const [first] = readers;
    if (first) this.#changes.editOf(first).before.push(...nodes.nodes);
    else this.#back.push(...nodes.nodes);
  }

  result(fetched: readonly RewriteOutput[]): NormRewrite {
    const { rewrite } = this.#changes;
    return {
      rewrite: {
        ...rewrite,
        outputs: [...fetched, ...this.#outputs],
        inputs: [...rewrite.inputs, ...this.#inputs],
        back: [...rewrite.back, ...this.#back],
      },
      taps: this.#taps,
      feeds: this.#feeds,
    };
  }

  /** The kept nodes that read what the norm gives, or the norm itself, in execution order. */
  #readersOf({ node, input, added }: Norm): readonly Node[] {
    const { nodes } = this.#rewrite.cut;
    return added ? input.uses.filter((user) => nodes.has(user)) : nodes.has(node) ? [node] : [];
  }

  /** Whether the tensor is known to have the type of the moments. */
  #typeOf({ input, elemType }: Norm): number | undefined {
    if (input.type?.kind === 'tensor' && input.type.elemType !== 0) return input.type.elemType;
    return opsetOf(this.#rewrite.cut.graph) < MIXED_TYPES ? elemType : undefined;
  }

  #tap(norm: Norm, { mean, rest, variance, shape }: NormTap): void {
    const type = { elemType: ELEMENT_TYPE[momentsType(norm)], dims: [norm.channels] };
    const plain = { layout: undefined, tokens: null, computed: [] };
    const why = { request: norm.input.name, value: norm.input, why: 'norm', ...plain };
    this.#outputs.push(
      { ...why, key: mean, tensor: mean, type },
      { ...why, key: rest, tensor: rest, type },
      { ...why, key: variance, tensor: variance, type },
      { ...why, key: shape, tensor: shape, type: { elemType: ELEMENT_TYPE.int64, dims: [null] } },
    );
    this.#taps.set(norm, { mean, rest, variance, shape });
  }

  #feed(norm: Norm): NormFeed {
    const { names } = this.#rewrite;
    const feed = { mean: names.take('tapir/norm/mean'), variance: names.take('tapir/norm/variance') };
    const type = { elemType: ELEMENT_TYPE[momentsType(norm)], dims: [norm.channels] };
    this.#inputs.push({ name: feed.mean, ...type }, { name: feed.variance, ...type });
    this.#feeds.set(norm, feed);
    return feed;
  }

  #addNorm(
    nodes: NodeBuilder,
    norm: Norm,
    { gamma, beta, epsilon, statistics: own }: AddedNorm,
    readers: readonly Node[],
    given: NormFeed | undefined,
  ): void {
    const tensor = (values: Float64Array): string => {
      const data = momentsType(norm) === 'float64' ? values : Float32Array.from(values);
      const type = ELEMENT_TYPE[momentsType(norm)];
      return cast(nodes, nodes.tensor(type, [norm.channels], data), norm);
    };
    const statistics = given
      ? [cast(nodes, given.mean, norm), cast(nodes, given.variance, norm)]
      : [tensor(own!.mean), tensor(own!.variance)];
    const inputs = [norm.input.name, tensor(gamma), tensor(beta), ...statistics];
    const result = nodes.add('BatchNormalization', inputs, { epsilon: { float: epsilon } });
    for (const reader of readers) {
      const slots = [...reader.inputs.keys()].filter((slot) => reader.inputs[slot] === norm.input);
      if (slots.length === 0) throw readInside(norm, reader);
      for (const slot of slots) this.#changes.editOf(reader).inputs.set(slot, result);
    }
  }
}

/** Since this operator set, a norm's statistics may have another type than what it normalises. */
const MIXED_TYPES = 15;

/** Mean and biased variance over all axes but the second, for any rank, and the deviations from the mean. */
function addMoments(
  nodes: NodeBuilder,
  norm: Norm,
  known: number | undefined,
): NormFeed & { readonly deviation: string } {
  const type = ELEMENT_TYPE[momentsType(norm)];
  const flat = nodes.reshape(norm.input.name, [0, 0, -1]);
  const values = known === type ? flat : nodes.add('Cast', [flat], { to: type });
  const mean = addMean(nodes, values);
  const deviation = nodes.add('Sub', [values, mean]);
  const variance = addMean(nodes, nodes.add('Mul', [deviation, deviation]));
  return { mean: nodes.reshape(mean, [-1]), variance: nodes.reshape(variance, [-1]), deviation };
}

/** `[N, C, L]` → `[1, C, 1]`. Two short sums: onnxruntime adds up a single channel one by one, which loses two digits in 10^5 values. */
function addMean(nodes: NodeBuilder, values: string): string {
  return nodes.reduce('ReduceMean', nodes.reduce('ReduceMean', values, [2], true), [0], true);
}

/** Statistics in the type that the norm has them in. */
function cast(nodes: NodeBuilder, tensor: string, norm: Norm): string {
  const isSame = norm.elemType === ELEMENT_TYPE[momentsType(norm)];
  return isSame ? tensor : nodes.add('Cast', [tensor], { to: norm.elemType });
}

function refuse(reason: string): TapirError {
  return new TapirError('INPUT_MISMATCH', `statistics cannot be computed in this graph: ${reason}`, {
    details: { input: 'model', expected: 'a later operator set', actual: reason },
  });
}

function readInside({ input }: Norm, reader: Node): TapirError {
  const reason = `"${describeNode(reader)}" reads "${input.name}" inside its body, where the norm cannot be added`;
  return new TapirError('GRAPH_INVALID', `statistics cannot be estimated: ${reason}`, {
    details: { reason, where: [describeNode(reader)] },
  });
}
