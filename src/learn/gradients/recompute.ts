/**
 * Recomputing instead of keeping (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Between given tensors, the backward
 * pass reads results that are computed once more. Those of the forward pass need not be kept.
 *
 * A runtime frees a tensor after its last reader, in its own order of nodes, and merges nodes that compute the same. So the repeated nodes
 * read their start through a Reshape to its own dims. The dims are joined with zero elements of the gradients that come first. No optimiser
 * can remove this dependency, and it changes no value.
 */
import { ELEMENT_TYPE } from '../../onnx/file/wire/schema.js';
import type { NewNode, NewTensor } from '../../onnx/file/wire/write-model.js';
import type { Node, Value } from '../../onnx/graph/graph.js';
import { opsetOf } from '../../onnx/graph/operator-sets.js';
import { operatorOf } from '../../onnx/graph/operators/operators.js';
import type { FreshNames } from '../../onnx/graph/rewrite/fresh-names.js';
import { NodeBuilder } from '../../onnx/graph/rewrite/node-builder.js';
import type { Cut } from '../../onnx/graph/rewrite/prune.js';
import type { BackNode, RepeatedNode } from '../../onnx/graph/rewrite/rewrite.js';
import { nodeRoles } from '../../onnx/graph/roles.js';
import { GraphMath } from './backward/graph-math.js';

/** The backward pass, and what may be computed again on it. */
export interface RecomputeRequest {
  readonly forward: Cut;
  /** The tensors to keep. What lies in front of each of them, up to the one before, is a segment. */
  readonly keep: readonly Value[];
  /** The nodes of the backward pass, in execution order. */
  readonly nodes: readonly NewNode[];
  /** The tensors that hold gradients. */
  readonly gradients: ReadonlyMap<Value, string>;
  /** The gradients that are fed. */
  readonly seeds: readonly string[];
}

/**
 * Adds the repeated nodes to the backward pass, each as late as possible: after the gradient of the end of its segment and those of the
 * parameters of the segment behind.
 *
 * What a later segment reads as well, what is returned, and what random nodes give stays as it is.
 */
export function recompute(request: RecomputeRequest, names: FreshNames): Pick<Repeats, 'nodes' | 'tensors'> {
  const repeats = new Repeats(request, names);
  for (const node of request.nodes) repeats.add(node);
  return repeats;
}

class Repeats {
  readonly nodes: BackNode[] = [];
  readonly #cut: Cut;
  readonly #segments: Segments;
  readonly #names: FreshNames;
  readonly #math: GraphMath;
  /** Tensors of the backward pass that are there already. */
  readonly #computed: Set<string>;
  /** For each segment, the gradients that come before it. */
  readonly #earlier: readonly (readonly string[])[];
  /** For each segment that was begun, what its starts wait for; null if it is not computed again. */
  readonly #waits = new Map<number, string | null>();
  /** Starts and results of repeated nodes, by segment. */
  readonly #again = new Map<number, Map<Value, string>>();

  constructor({ forward, keep, gradients, seeds }: RecomputeRequest, names: FreshNames) {
    this.#cut = forward;
    this.#segments = new Segments(forward, keep);
    this.#names = names;
    const builder = new NodeBuilder(names, 'recompute', opsetOf(forward.graph));
    this.#math = new GraphMath(builder, ELEMENT_TYPE.float32, new Map());
    this.#computed = new Set(seeds);
    this.#earlier = this.#segments.earlierGradients(gradients);
  }

  get tensors(): readonly NewTensor[] {
    return this.#math.nodes.tensors;
  }

  /** Adds a node of the backward pass, after the repeated ones that it reads. */
  add(node: NewNode): void {
    const inputs = node.inputs.map((name) => {
      const value = this.#cut.graph.values.get(name);
      const segment = value && this.#segments.ofInterior(value);
      return segment === undefined ? name : this.#repeat(value!, segment);
    });
    this.#push({ ...node, inputs });
  }

  #push(node: BackNode): void {
    this.nodes.push(node);
    for (const output of node.outputs) this.#computed.add(output);
  }

  /** The result of the repeated node, which is added with those that it needs; the value itself where its segment is not repeated. */
  #repeat(value: Value, segment: number): string {
    const again = this.#again.get(segment) ?? new Map<Value, string>();
    this.#again.set(segment, again);
    const known = again.get(value);
    if (known !== undefined) return known;
    const waits = this.#waitsOf(segment);
    if (waits === null) return value.name;
    const needed = new Set<Node>();
    const open = [value];
    for (let at = open.pop(); at; at = open.pop()) {
      if (again.has(at) || this.#segments.ofInterior(at) !== segment || needed.has(at.producer!)) continue;
      needed.add(at.producer!);
      // One by one: a node may read more values than a call takes arguments.
      for (const read of at.producer!.reads) open.push(read);
    }
    for (const node of [...needed].toSorted((a, b) => a.index - b.index)) {
      const inputs = node.inputs.map((read) => (read ? this.#read(read, segment, waits) : ''));
      const outputs = node.outputs.map((output) => (output ? this.#names.take(`${output.name}/again`) : ''));
      for (const [k, output] of node.outputs.entries()) if (output) again.set(output, outputs[k]!);
      const name = this.#names.take(`tapir/recompute/${node.name || node.opType}`);
      this.#push({ name, opType: node.opType, inputs, outputs, repeats: node } satisfies RepeatedNode);
    }
    return again.get(value)!;
  }

  /** What a repeated node reads: a repeated result, a start, or a constant. */
  #read(value: Value, segment: number, waits: string): string {
    const again = this.#again.get(segment)!;
    const known = again.get(value);
    if (known !== undefined) return known;
    if (!this.#segments.isData(value)) return value.name;
    const math = this.#math;
    const start = math.reshape(value.name, math.concat([math.sizes(value.name), waits], 0));
    this.#flush();
    again.set(value, start);
    return start;
  }

  /** A list without elements, which is there when the earlier gradients are. */
  #waitsOf(segment: number): string | null {
    const known = this.#waits.get(segment);
    if (known !== undefined) return known;
    const math = this.#math;
    const nothing = this.#earlier
      [segment]!.filter((name) => this.#computed.has(name))
      .map((name) => math.cast(math.slice(math.reshape(name, [-1]), [0], [0], [0]), ELEMENT_TYPE.int64));
    const waits = nothing.length === 0 ? null : math.concat(nothing, 0);
    this.#flush();
    this.#waits.set(segment, waits);
    return waits;
  }

  #flush(): void {
    for (const node of this.#math.nodes.nodes.splice(0)) this.#push(node);
  }
}

/** The parts of a graph in front of each kept tensor. */
class Segments {
  readonly #cut: Cut;
  readonly #keep: readonly Value[];
  readonly #outputs: ReadonlySet<Value>;
  readonly #of = new Map<Node, number>();

  constructor(cut: Cut, keep: readonly Value[]) {
    this.#cut = cut;
    this.#keep = [...new Set(keep)]
      .filter(({ producer }) => producer !== undefined)
      .toSorted((a, b) => a.producer!.index - b.producer!.index);
    this.#outputs = new Set([...this.#keep, ...cut.outputs.map(({ value }) => value)]);
    for (const [segment, end] of this.#keep.entries()) {
      const open = [end];
      for (let at = open.pop(); at; at = open.pop()) {
        const node = at.producer;
        if (!node || this.#of.has(node) || !this.isData(at)) continue;
        this.#of.set(node, segment);
        for (const read of node.reads) open.push(read);
      }
    }
  }

  /** Whether a value depends on the content of an input. */
  isData({ producer, input, initializer }: Value): boolean {
    if (!producer) return input !== undefined && initializer === undefined;
    return nodeRoles(this.#cut.graph).get(producer) === 'data';
  }

  /** The segment that alone reads a value, if its node can run again. */
  ofInterior(value: Value): number | undefined {
    const { producer } = value;
    const segment = producer && this.#of.get(producer);
    if (segment === undefined || this.#outputs.has(value) || !canRepeat(producer!)) return undefined;
    const isElsewhere = (node: Node): boolean => this.#isRun(node) && this.#of.get(node) !== segment;
    return value.uses.some(isElsewhere) ? undefined : segment;
  }

  /** For each segment, the gradients of its end, and of the parameters that the next segment is the first to read. */
  earlierGradients(gradients: ReadonlyMap<Value, string>): string[][] {
    const earlier = this.#keep.map((end) => [gradients.get(end) ?? []].flat());
    for (const [value, name] of gradients) {
      if (!value.initializer) continue;
      const users = value.uses.filter((node) => this.#isRun(node));
      const segments = users.map((node) => this.#of.get(node) ?? this.#keep.length);
      const first = segments.reduce((least, segment) => Math.min(least, segment), Infinity);
      earlier[first - 1]?.push(name);
    }
    return earlier;
  }

  #isRun(node: Node): boolean {
    return this.#cut.nodes.has(node) && nodeRoles(this.#cut.graph).get(node) === 'data';
  }
}

/** One output, no body, and the same result at each run. */
function canRepeat(node: Node): boolean {
  const { domain, opType, inputs, outputs, scanned } = node;
  if (domain !== '' || scanned.bodies || outputs.filter(Boolean).length !== 1) return false;
  const isTraining = opType === 'Dropout' && inputs[2] !== undefined;
  return !operatorOf(node)?.isRandom && !isTraining;
}
