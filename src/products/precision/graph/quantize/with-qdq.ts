/** A rewrite → the same one with QuantizeLinear and DequantizeLinear around what is computed in 8 bits with fixed scales. */
import { ELEMENT_TYPE } from '../../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../../onnx/graph/graph.js';
import type { FreshNames } from '../../../../onnx/graph/rewrite/fresh-names.js';
import { opsetOf } from '../../../../onnx/graph/operator-sets.js';
import { NodeBuilder } from '../../../../onnx/graph/rewrite/node-builder.js';
import { dropUnread } from '../../../../onnx/graph/rewrite/drop-unread.js';
import { RewriteChanges } from '../../../../onnx/graph/rewrite/rewrite-changes.js';
import type { Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
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
  return dropUnread(parts.result(), gone, (value) => value.input !== undefined);
}

/** Whether the weights of a layer hold more than the file's, so that other layers cannot read them. */
export function isOwn({ norm }: Layer, { factors }: Rounding): boolean {
  return norm !== undefined || factors !== undefined;
}

/** Nodes and tensors of the 8-bit form. */
export class QdqParts {
  readonly names: FreshNames;
  readonly builder: NodeBuilder;
  readonly #opset: number;
  readonly #changes: RewriteChanges;
  readonly #folded = new Set<Node>();
  readonly #fused = new Set<Value>();
  readonly #made = new Map<string, string>();

  constructor(rewrite: Rewrite) {
    this.#opset = Math.max(QDQ_OPSET, opsetOf(rewrite.cut.graph));
    this.names = rewrite.names.fork();
    this.builder = new NodeBuilder(this.names, 'int8', this.#opset);
    this.#changes = new RewriteChanges(rewrite);
  }

  /** Lets a node read another tensor. */
  patch(node: Node, slot: number, name: string): void {
    this.#changes.editOf(node).inputs.set(slot, name);
  }

  /** Lets a layer give what the norm behind it gave, under the norm's name. Returns what the norm read. */
  fold(layer: Node, { node, result }: LayerNorm): readonly Value[] {
    const edit = this.#changes.editOf(layer);
    edit.outputs.set(0, result.name);
    edit.name = node.name;
    this.#folded.add(node);
    this.#fused.add(layer.outputs[0]!);
    return node.reads.filter((value) => value !== layer.outputs[0]);
  }

  /** Adds nodes that run before a node. */
  place(before: Node): void {
    this.#changes.editOf(before).before.push(...this.builder.nodes.splice(0));
  }

  /** The rounded form of a tensor. It is computed once, before its first reader, so ask in execution order. */
  round(tensor: string, { scale, zero, isSigned, factors }: Rounding, reader: Node): string {
    const known = this.#made.get(tensor);
    if (known !== undefined) return known;
    const type = isSigned ? ELEMENT_TYPE.int8 : ELEMENT_TYPE.uint8;
    const steps = [
      this.builder.tensor(ELEMENT_TYPE.float32, [], Float32Array.of(scale), `${tensor}/scale`),
      this.builder.tensor(type, [], Uint8Array.of(zero), `${tensor}/zero`),
    ];
    const scaled = factors ? this.#scale(tensor, factors) : tensor;
    const levels = this.names.take(`${tensor}/int8`);
    this.builder.add('QuantizeLinear', [scaled, ...steps], {}, levels);
    const rounded = this.names.take(`${tensor}/rounded`);
    this.builder.add('DequantizeLinear', [levels, ...steps], {}, rounded);
    this.place(reader);
    this.#made.set(tensor, rounded);
    return rounded;
  }

  /** A tensor with its channels scaled. Names that mean what a layer reads lead past it (names/module-ends). */
  #scale(tensor: string, factors: Float32Array): string {
    const dims = [factors.length];
    const constant = this.builder.tensor(ELEMENT_TYPE.float32, dims, factors, `${tensor}/factors`);
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
      this.builder.tensor(type, dims, values, `${value.name}/${isWeight ? 'int8' : 'int32'}`),
      this.builder.tensor(ELEMENT_TYPE.float32, [scales.length], scales, `${value.name}/scale`),
    ];
    const made = this.names.take(`${value.name}/rounded`);
    this.builder.add('DequantizeLinear', inputs, { axis }, made);
    this.place(reader);
    this.#made.set(key, made);
    return made;
  }

  result(): Rewrite {
    const { rewrite } = this.#changes;
    const { cut } = rewrite;
    return {
      ...rewrite,
      cut: {
        ...cut,
        nodes: new Set([...cut.nodes].filter((node) => !this.#folded.has(node))),
        values: new Set([...cut.values].filter((value) => !this.#fused.has(value))),
      },
      tensors: [...rewrite.tensors, ...this.builder.tensors],
      opset: this.#opset,
      names: this.names,
    };
  }
}
