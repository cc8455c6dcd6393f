/** A rewrite → the same one with QuantizeLinear and DequantizeLinear around what is computed in 8 bits with fixed scales. */
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import type { NewNode, NewTensor } from '../../onnx/wire/write-model.js';
import type { Node, Value } from '../graph.js';
import type { FreshNames } from '../rewrite/fresh-names.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from '../rewrite/node-builder.js';
import type { NodePatch, Rewrite } from '../rewrite/rewrite.js';
import { roundBias, type RoundedConstant, type Rounding } from './roundings.js';
import { biasValue, type Layer, type Read } from './layers.js';
import type { LayerNorm } from './norms.js';

/** The operator set since which DequantizeLinear takes a scale per channel. */
export const QDQ_OPSET = 13;

/** A layer whose weights are 8-bit. */
export interface RoundedLayer {
  readonly layer: Layer;
  readonly weights: RoundedConstant<Int8Array>;
  /** The bias in float32, with what its norm adds. */
  readonly bias: Float32Array | undefined;
}

/** What is rounded together: the weights and activations of a layer, or all that a sum or a pool reads. */
export interface Unit {
  /** All of one node. */
  readonly reads: readonly Read[];
  readonly rounded: RoundedLayer | undefined;
}

/** What is computed in 8 bits. */
export interface QdqPlan {
  readonly layers: readonly RoundedLayer[];
  /** All reads of 8-bit activations: those of the layers, and of what moves or adds such tensors. */
  readonly reads: readonly Read[];
  /** By the name of the tensor. */
  readonly roundings: ReadonlyMap<string, Rounding>;
}

/**
 * Makes a plain QDQ file: every 8-bit tensor of activations is rounded once, by a QuantizeLinear and a DequantizeLinear behind it, and
 * 8-bit weights are initializers with a DequantizeLinear. Kept nodes keep their names and outputs; only the names of what they read
 * change. Engines fuse this form to integer kernels.
 */
export function withQdq(rewrite: Rewrite, { layers, reads, roundings }: QdqPlan): Rewrite {
  const parts = new QdqParts(rewrite);
  for (const { node, slot, tensor } of reads)
    parts.patch(node, slot, parts.round(tensor, roundings.get(tensor)!, node));
  const gone: Value[] = [];
  for (const { layer, weights, bias } of layers) {
    // Biases get the scales of the layer's products, as integer kernels add them.
    const rounding = roundings.get(layer.tensor)!;
    const constants = [
      [1, layer.weights.value, weights],
      [2, biasValue(layer), bias && roundBias(bias, rounding.scale, weights.scales)],
    ] as const;
    for (const [slot, value, rounded] of constants) {
      if (!value || !rounded) continue;
      parts.patch(layer.node, slot, parts.constant(value, rounded, layer.node, isOwn(layer, rounding)));
      gone.push(value);
    }
    if (layer.norm) gone.push(...parts.fold(layer.node, layer.norm));
  }
  return dropUnread(parts.result(), gone);
}

/** Whether the weights of a layer hold more than the file's, so that other layers cannot read them. */
export function isOwn({ norm }: Layer, { factors }: Rounding): boolean {
  return norm !== undefined || factors !== undefined;
}

/** Nodes and tensors of the 8-bit form. */
export class QdqParts {
  readonly names: FreshNames;
  readonly builder: NodeBuilder;
  readonly #rewrite: Rewrite;
  readonly #opset: number;
  readonly #patches: Map<Node, NodePatch>;
  readonly #before: Map<Node, NewNode[]>;
  readonly #folded = new Set<Node>();
  readonly #fused = new Set<Value>();
  readonly #made = new Map<string, string>();
  readonly #tensors: NewTensor[] = [];

  constructor(rewrite: Rewrite) {
    this.#rewrite = rewrite;
    this.#opset = Math.max(QDQ_OPSET, opsetOf(rewrite.cut.graph));
    this.names = rewrite.names.fork();
    this.builder = new NodeBuilder(this.names, 'int8', this.#opset);
    this.#patches = new Map(rewrite.patches);
    this.#before = new Map([...rewrite.before].map(([node, added]) => [node, [...added]]));
  }

  /** Lets a node read another tensor. */
  patch(node: Node, slot: number, name: string): void {
    const patch = this.#patches.get(node);
    const inputs = new Map(patch?.inputs).set(slot, name);
    this.#patches.set(node, { ...patch, outputs: patch?.outputs ?? new Map(), inputs });
  }

  /** Lets a layer give what the norm behind it gave, under the norm's name. Returns what the norm read. */
  fold(layer: Node, { node, result }: LayerNorm): readonly Value[] {
    const inputs = this.#patches.get(layer)!.inputs;
    this.#patches.set(layer, { inputs, outputs: new Map([[0, result.name]]), name: node.name });
    this.#folded.add(node);
    this.#fused.add(layer.outputs[0]!);
    return node.reads.filter((value) => value !== layer.outputs[0]);
  }

  /** Adds nodes that run before a node. */
  place(before: Node): void {
    const { nodes } = this.builder;
    this.#before.set(before, [...(this.#before.get(before) ?? []), ...nodes.splice(0)]);
  }

  /** The rounded form of a tensor. It is computed once, before its first reader, so ask in execution order. */
  round(tensor: string, { scale, zero, isSigned, factors }: Rounding, reader: Node): string {
    const known = this.#made.get(tensor);
    if (known !== undefined) return known;
    const type = isSigned ? ELEMENT_TYPE.int8 : ELEMENT_TYPE.uint8;
    const steps = [
      this.#add(`${tensor}/scale`, ELEMENT_TYPE.float32, [], Float32Array.of(scale)),
      this.#add(`${tensor}/zero`, type, [], Uint8Array.of(zero)),
    ];
    const levels = this.builder.add(
      'QuantizeLinear',
      [factors ? this.#scale(tensor, factors) : tensor, ...steps],
      {},
      this.names.take(`${tensor}/int8`),
    );
    const rounded = this.names.take(`${tensor}/rounded`);
    this.builder.add('DequantizeLinear', [levels, ...steps], {}, rounded);
    this.place(reader);
    this.#made.set(tensor, rounded);
    return rounded;
  }

  /** A tensor with its channels scaled. Names that mean what a layer reads lead past it (names/module-ends). */
  #scale(tensor: string, factors: Float32Array): string {
    const constant = this.#add(`${tensor}/factors`, ELEMENT_TYPE.float32, [factors.length], factors);
    return this.builder.add('Mul', [tensor, constant], {}, this.names.take(`${tensor}/smoothed`));
  }

  /**
   * The float32 form of a rounded constant. Layers that read the same weights share them, unless they are one's own, or have other
   * scales: engines take the scale of a layer's bias to be that of its products.
   */
  constant(
    value: Value,
    { values, dims, axis, scales }: RoundedConstant<Int8Array | Int32Array>,
    reader: Node,
    isOwn = false,
  ): string {
    const isWeight = values instanceof Int8Array;
    const key =
      isWeight && !isOwn ? `${value.name}/${axis}/${scales.join()}` : `${value.name}/${reader.index}`;
    const known = this.#made.get(key);
    if (known !== undefined) return known;
    const type = isWeight ? ELEMENT_TYPE.int8 : ELEMENT_TYPE.int32;
    const inputs = [
      this.#add(`${value.name}/${isWeight ? 'int8' : 'int32'}`, type, dims, values),
      this.#add(`${value.name}/scale`, ELEMENT_TYPE.float32, [scales.length], scales),
    ];
    const made = this.builder.add(
      'DequantizeLinear',
      inputs,
      { axis },
      this.names.take(`${value.name}/rounded`),
    );
    this.place(reader);
    this.#made.set(key, made);
    return made;
  }

  result(): Rewrite {
    const { cut } = this.#rewrite;
    return {
      ...this.#rewrite,
      cut: {
        ...cut,
        nodes: new Set([...cut.nodes].filter((node) => !this.#folded.has(node))),
        values: new Set([...cut.values].filter((value) => !this.#fused.has(value))),
      },
      before: this.#before,
      patches: this.#patches,
      tensors: [...this.#rewrite.tensors, ...this.#tensors, ...this.builder.tensors],
      opset: this.#opset,
      names: this.names,
    };
  }

  #add(
    wanted: string,
    elemType: number,
    dims: readonly number[],
    { buffer, byteOffset, byteLength }: Int8Array | Uint8Array | Int32Array | Float32Array,
  ): string {
    const name = this.names.take(wanted);
    this.#tensors.push({ name, elemType, dims, data: new Uint8Array(buffer, byteOffset, byteLength) });
    return name;
  }
}

/** Drops constants that nothing reads any more, with the nodes that made them. */
function dropUnread(rewrite: Rewrite, candidates: readonly Value[]): Rewrite {
  const { cut, patches } = rewrite;
  const nodes = new Set(cut.nodes);
  const values = new Set(cut.values);
  const fetched = new Set(cut.outputs.map(({ value }) => value));
  const isRead = (value: Value): boolean =>
    value.uses.some(
      (node) =>
        nodes.has(node) &&
        (!node.inputs.includes(value) ||
          node.inputs.some((input, slot) => input === value && !patches.get(node)?.inputs.has(slot))),
    );
  const drop = (value: Value): void => {
    if (!values.has(value) || fetched.has(value) || value.input || isRead(value)) return;
    values.delete(value);
    const { producer } = value;
    if (!producer) return;
    nodes.delete(producer);
    for (const read of producer.reads) drop(read);
  };
  for (const value of candidates) drop(value);
  return { ...rewrite, cut: { ...cut, nodes, values } };
}
