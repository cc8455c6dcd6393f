/** Writes the float view of a graph, node by node in execution order. Linear in nodes and edges. */
import type { ScannedNode } from '../../file/scan/scan-graph.js';
import { buildGraph } from '../build-graph.js';
import type { Graph, Node, Value } from '../graph.js';
import { nameInTensor } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import type { FloatView, LostActivation } from './view.js';
import {
  INTEGER_PRODUCTS,
  isFloatCast,
  isOwn,
  KERNELS,
  scaledName,
  sourceName,
  type Kernel,
} from './forms.js';
import { findProduct, type IntegerProduct } from './integer-products.js';
import { findLost, operatorOfActivation, type Lost } from './lost-activations.js';
import { ViewValues } from './view-values.js';

/** A node of the view while it is written. */
type NewNode = Pick<ScannedNode, 'opType' | 'inputs' | 'outputs'> &
  Partial<Pick<ScannedNode, 'name' | 'domain'>>;

export class ViewDraft {
  readonly #graph: Graph;
  readonly #values: ViewValues;
  readonly #nodes: ScannedNode[] = [];
  /** What quantizers read, where a dropped activation comes between. */
  readonly #activated = new Map<Value, string>();
  /** Products of integers by their last nodes, and the nodes in them. */
  readonly #products = new Map<Node, IntegerProduct>();
  readonly #inside = new Set<Node>();
  /** Scales that are computed at run time. */
  readonly #runtimeScales = new Set<Value>();
  /** The value that stands for a node of the file. */
  readonly #stands = new Map<Node, string>();
  readonly #lost = new Map<string, { readonly after: string; readonly name: string | undefined }>();
  readonly #taken = new Map<Value, string>();

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#values = new ViewValues(graph);
    for (const node of graph.nodes) this.#visit(node);
  }

  finish(): FloatView {
    const { model, sidecar, values } = this.#graph;
    const outputs = model.graph.outputs.map((info) =>
      Object.assign({}, info, { name: this.#values.nameOf(values.get(info.name)!) }),
    );
    const initializers = [...model.graph.initializers, ...this.#values.weights.values()];
    const graph = buildGraph(
      { ...model, graph: { ...model.graph, nodes: this.#nodes, initializers, outputs } },
      sidecar,
    );
    const valueOf = (name: string): Value => graph.values.get(name)!;
    const lost = new Map<Node, LostActivation>();
    for (const [before, { after, name }] of this.#lost)
      lost.set(valueOf(before).producer!, { after: valueOf(after).producer!, name });
    return {
      graph,
      heldOf: ({ name }) => this.#values.heldOf(name),
      nodeOf: (node) => graph.values.get(this.#stands.get(node) ?? '')?.producer,
      taken: new Map([...this.#taken].map(([tensor, name]) => [tensor, valueOf(name)])),
      lost,
      isRewritten: true,
    };
  }

  #visit(node: Node): void {
    const { opType, inputs, outputs } = node;
    const product = this.#products.get(node);
    if (product) return this.#addProduct(node, product);
    if (this.#inside.has(node) || this.#scales(node)) return undefined;
    const [read] = inputs;
    const [result] = outputs;
    if (!read || !result) return this.#keep(node);
    if (opType === 'DynamicQuantizeLinear') {
      this.#runtimeScales.add(outputs[1]!);
      return this.#quantize(node, read, result, outputs[1]!, outputs[2]);
    }
    if (opType === 'QuantizeLinear') return this.#quantize(node, read, result, inputs[1]!, inputs[2]);
    if (opType === 'DequantizeLinear') return this.#dequantize(node, read, result);
    if (INTEGER_PRODUCTS.has(opType) && this.#startProduct(node)) return undefined;
    const kernel = KERNELS.get(opType);
    if (kernel) return this.#addKernel(node, result, kernel);
    if (this.#values.levels.has(read)) {
      if (opType === 'Cast' || opType === 'Clip') return this.#passLevels(node, read, result);
      if (operatorOf(node)?.levels) return this.#moveLevels(node, read);
    }
    if (isFloatCast(node) || SMOOTHED.test(result.name))
      return this.#alias(node, result, this.#values.nameOf(read));
    return this.#keep(node);
  }

  /** Whether a node only computes the scale of a product: of the scale that its numbers were given at run time, and that of its weight. */
  #scales({ opType, inputs, outputs: [output] }: Node): boolean {
    const isScale = opType === 'Mul' && inputs.some((value) => value && this.#runtimeScales.has(value));
    if (isScale && output) this.#runtimeScales.add(output);
    return isScale;
  }

  #alias(node: Node, output: Value, name: string): void {
    this.#values.call(output, name);
    this.#stands.set(node, name);
  }

  #emit(node: Node, made: NewNode): void {
    for (const name of made.outputs) this.#values.define(name);
    this.#stands.set(node, made.outputs[0] ?? '');
    this.#nodes.push({ ...node.scanned, domain: '', ...made });
  }

  #quantize(node: Node, value: Value, result: Value, scale: Value, zero: Value | undefined): void {
    const levels = { scale, zero };
    const name = this.#activated.get(value) ?? this.#values.readName(value);
    this.#values.levels.set(result, levels);
    if (!isOwn(node)) return this.#alias(node, result, name);
    // Rounding that the network itself does changes its values.
    this.#emit(node, { opType: 'Identity', inputs: [name], outputs: [result.name] });
    this.#values.hold(result.name, result, levels);
    return undefined;
  }

  #dequantize(node: Node, value: Value, result: Value): void {
    const name = this.#values.readName(value);
    this.#alias(node, result, name);
    if (!this.#values.turned.has(value)) this.#values.holdNumbers(name, result);
  }

  #startProduct(node: Node): boolean {
    const product = findProduct(node);
    if (!product) return false;
    for (const inner of product.nodes) this.#inside.add(inner);
    this.#products.set(product.last, product);
    return true;
  }

  #addProduct(node: Node, { product, nodes, bias }: IntegerProduct): void {
    const read = [...product.inputs.slice(0, 2), bias].flatMap((value) => value ?? []);
    const inputs = read.map((value) => this.#values.readName(value));
    const output = node.outputs[0]!.name;
    this.#emit(node, {
      opType: INTEGER_PRODUCTS.get(product.opType)!,
      name: ownName(product),
      inputs,
      outputs: [output],
    });
    for (const inner of [product, ...nodes]) this.#stands.set(inner, output);
  }

  #addKernel(node: Node, output: Value, { opType, reads, levels: at }: Kernel): void {
    const read =
      'pairs' in reads
        ? node.inputs.filter((_, i) => i >= reads.pairs && (i - reads.pairs) % 3 === 0)
        : reads.map((i) => node.inputs[i]);
    const inputs = read.flatMap((value) => (value ? [this.#values.readName(value)] : []));
    const scale = at && node.inputs[at[0]];
    const levels = scale && { scale, zero: node.inputs[at[1]] };
    const isTurned = node.scanned.layout.get('channels_last') === 1 || this.#readsTurned(node);
    if (isTurned) this.#values.turned.add(output);
    if (levels) this.#values.levels.set(output, levels);
    const tensor = levels ? this.#values.free(kernelName(output, levels.scale), output.name) : output.name;
    const lost = levels && findLost({ node, opType, tensor, graph: this.#graph, zero: levels.zero });
    // A tensor that is named after its activation is the value after it.
    const isNamed = lost?.name !== undefined;
    const before = isNamed ? this.#beforeName(node, tensor) : tensor;
    const after = lost && !isNamed ? `${tensor}/after` : tensor;
    this.#values.call(output, after);
    const name = ownName(node);
    // MatMul has no bias.
    if (opType === 'MatMul' && inputs.length > 2) {
      const product = `${before}/product`;
      this.#emit(node, { opType, name, inputs: inputs.slice(0, 2), outputs: [product] });
      this.#values.hold(product, undefined);
      this.#emit(node, { opType: 'Add', name, inputs: [product, inputs[2]!], outputs: [before] });
    } else this.#emit(node, { opType, name, inputs, outputs: [before] });
    if (lost) {
      this.#values.hold(before, undefined);
      this.#addActivation(node, before, after, lost);
    }
    this.#values.hold(after, isTurned ? undefined : output, levels);
  }

  #readsTurned({ inputs }: Node): boolean {
    return inputs.some((value) => value !== undefined && this.#values.turned.has(value));
  }

  /** The tensor that a node gave before it got that of an activation. */
  #beforeName(node: Node, tensor: string): string {
    const own = nameInTensor(tensor) === undefined ? '' : `${ownName(node)}_output_0`;
    return this.#values.free(own, `${tensor}/before`);
  }

  #addActivation(node: Node, before: string, after: string, lost: Lost): void {
    const opType = operatorOfActivation(lost.name);
    const name = nameInTensor(after) ?? '';
    this.#nodes.push({
      ...node.scanned,
      metadata: NO_METADATA,
      opType,
      domain: '',
      name,
      inputs: [before],
      outputs: [after],
    });
    this.#values.define(after);
    this.#lost.set(before, { after, name: lost.name });
  }

  /** A node that gives the whole numbers that it reads. */
  #passLevels(node: Node, read: Value, output: Value): void {
    this.#values.levels.set(output, this.#values.levels.get(read)!);
    if (this.#values.turned.has(read)) this.#values.turned.add(output);
    this.#alias(node, output, this.#values.nameOf(read));
  }

  /** A node that moves whole numbers moves the numbers that they mean. */
  #moveLevels(node: Node, read: Value): void {
    const levels = this.#values.levels.get(read)!;
    const isTurned = this.#readsTurned(node) && node.opType !== 'Transpose';
    const outputs = node.outputs.map((output) => {
      if (!output) return '';
      const name = this.#values.free(sourceName(output.name), output.name);
      this.#values.levels.set(output, levels);
      this.#values.call(output, name);
      if (isTurned) this.#values.turned.add(output);
      this.#values.hold(name, isTurned ? undefined : output, levels);
      return name;
    });
    this.#emit(node, {
      ...node.scanned,
      name: ownName(node),
      inputs: this.#values.namesOf(node.inputs),
      outputs,
    });
  }

  #keep(node: Node): void {
    const [output] = node.outputs;
    for (const captured of node.scanned.bodies ? node.reads : []) this.#keepCaptured(node, captured);
    const inputs = this.#values.namesOf(node.inputs);
    const lost = output && findLost({ node, opType: node.opType, tensor: output.name, graph: this.#graph });
    if (!lost) {
      const outputs = node.outputs.map((value) => (value ? this.#writtenName(value) : ''));
      return this.#emit(node, { ...node.scanned, inputs, outputs });
    }
    // The node before a dropped activation has its tensor.
    const isTaken = lost.name !== undefined;
    const before = isTaken ? this.#beforeName(node, output.name) : output.name;
    const after = isTaken ? output.name : `${output.name}/after`;
    this.#values.call(output, before);
    this.#activated.set(output, after);
    const others = node.outputs.slice(1).map((value) => value?.name ?? '');
    this.#emit(node, { ...node.scanned, inputs, outputs: [before, ...others] });
    this.#values.hold(before, output);
    this.#values.hold(after, undefined);
    if (isTaken) this.#taken.set(output, after);
    return this.#addActivation(node, before, after, lost);
  }

  /** Bodies read tensors by the names of the file. */
  #keepCaptured(node: Node, value: Value): void {
    const name = this.#values.nameOf(value);
    if (name === value.name || this.#values.isDefined(value.name)) return;
    const copy = { ...node.scanned, bodies: undefined, opType: 'Identity', domain: '', name: '' };
    this.#nodes.push({ ...copy, inputs: [name], outputs: [value.name] });
    this.#values.define(value.name);
  }

  /** A Cast behind a node has the tensor that the node had. */
  #writtenName(value: Value): string {
    const [user, ...others] = value.uses;
    const result = user?.outputs[0];
    const isGiven =
      result && others.length === 0 && isFloatCast(user) && /_cast(?:_|$)|Cast/.test(value.name);
    if (!isGiven) return value.name;
    this.#values.call(value, result.name);
    this.#values.hold(result.name, value);
    return result.name;
  }
}

const NO_METADATA: ReadonlyMap<string, string> = new Map();
/** What `quantize/with-qdq` calls a tensor whose channels it scales before it rounds them. */
const SMOOTHED = /\/smoothed(?:_\d+)?$/;

/** A node's name in the source: quantizers keep it, with an ending. */
function ownName({ name }: Node): string {
  return name.replace(/_quant$/, '');
}

/** What the source called the result of a kernel: quantizers name the tensor, its numbers, or only its scale, after it. */
function kernelName({ name, uses }: Value, scale: Value): string {
  const own = sourceName(name);
  if (own !== name || nameInTensor(name) !== undefined) return own;
  const numbers = uses.find(({ opType }) => opType === 'DequantizeLinear')?.outputs[0]?.name;
  return numbers === undefined ? (scaledName(scale.name) ?? name) : sourceName(numbers);
}
