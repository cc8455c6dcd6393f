/** Writes the float view of a graph, node by node in execution order. Linear in nodes and edges. */
import type { ScannedNode } from '../../file/scan/scan-graph.js';
import type { ScannedTensor, ScannedValueInfo } from '../../file/scan/scan-value.js';
import { buildGraph } from '../build-graph.js';
import { isDefined, type Graph, type Node, type Value } from '../graph.js';
import { nameInTensor, placeOfTensor } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';
import type { FloatView, Held, Levels, LostActivation } from './float-view.js';
import {
  givesIntegers,
  INTEGER_PRODUCTS,
  isFloatCast,
  isOwn,
  KERNELS,
  scaledName,
  sourceName,
  sourceWeight,
  type Kernel,
} from './forms.js';
import { findProduct, type IntegerProduct } from './integer-products.js';
import { findLost, operatorOfActivation, type Lost } from './lost-activations.js';

/** A node of the view while it is written. */
type NewNode = Pick<ScannedNode, 'opType' | 'domain' | 'name' | 'inputs' | 'outputs'>;

export class ViewDraft {
  readonly #graph: Graph;
  readonly #nodes: ScannedNode[] = [];
  /** Weights under the names that they had. */
  readonly #weights = new Map<string, ScannedTensor>();
  /** What a tensor of the file is called in the view, if it has another name there. */
  readonly #names = new Map<Value, string>();
  /** The same for what quantizers read, where a dropped activation comes between. */
  readonly #activated = new Map<Value, string>();
  /** Scale and zero point of tensors of whole numbers. */
  readonly #levels = new Map<Value, Levels>();
  /** What the file has of the values of the view, where that is not the tensor of their name. */
  readonly #held = new Map<string, Held | undefined>();
  /** Values with channels last, as one processor reads them. */
  readonly #turned = new Set<Value>();
  /** Nodes of products of integers, by the last one; the others are passed over. */
  readonly #products = new Map<Node, IntegerProduct>();
  readonly #inside = new Set<Node>();
  readonly #runtimeScales = new Set<Value>();
  readonly #stands = new Map<Node, string>();
  readonly #lost = new Map<string, { readonly after: string; readonly name: string | undefined }>();
  readonly #taken = new Map<Value, string>();
  readonly #defined = new Set<string>();

  constructor(graph: Graph) {
    this.#graph = graph;
    for (const node of graph.nodes) this.#visit(node);
  }

  finish(): FloatView {
    const { model, sidecar } = this.#graph;
    const rename = (info: ScannedValueInfo): ScannedValueInfo => ({
      ...info,
      name: this.#nameOf(this.#graph.values.get(info.name)!),
    });
    const graph = buildGraph(
      {
        ...model,
        graph: {
          ...model.graph,
          nodes: this.#nodes,
          initializers: [...model.graph.initializers, ...this.#weights.values()],
          outputs: model.graph.outputs.map(rename),
        },
      },
      sidecar,
    );
    const valueOf = (name: string): Value => graph.values.get(name)!;
    const lost = new Map<Node, LostActivation>();
    for (const [name, { after, name: own }] of this.#lost)
      lost.set(valueOf(name).producer!, { after: valueOf(after).producer!, name: own });
    return {
      graph,
      heldOf: ({ name }) => this.#heldOf(name),
      nodeOf: (node) => graph.values.get(this.#stands.get(node) ?? '')?.producer,
      taken: new Map([...this.#taken].map(([tensor, name]) => [tensor, valueOf(name)])),
      lost,
      isRewritten: true,
    };
  }

  #heldOf(name: string): Held | undefined {
    if (this.#held.has(name)) return this.#held.get(name);
    const value = this.#graph.values.get(name);
    return value && isDefined(value) && !(value.producer && givesIntegers(value.producer))
      ? { value }
      : undefined;
  }

  #visit(node: Node): void {
    const product = this.#products.get(node);
    if (product) return this.#addProduct(node, product);
    if (this.#inside.has(node) || this.#scales(node)) return undefined;
    const [read] = node.inputs;
    const kernel = KERNELS.get(node.opType);
    if (node.opType === 'DynamicQuantizeLinear' && read)
      this.#quantize(node, read, node.outputs[1]!, node.outputs[2]);
    else if (node.opType === 'QuantizeLinear' && read)
      this.#quantize(node, read, node.inputs[1]!, node.inputs[2]);
    else if (node.opType === 'DequantizeLinear' && read) this.#dequantize(node, read);
    else if (INTEGER_PRODUCTS.has(node.opType) && this.#startProduct(node)) return undefined;
    else if (kernel) this.#addKernel(node, kernel);
    else if (read && this.#levels.has(read) && this.#moves(node)) this.#moveLevels(node, read);
    else if (read && (isFloatCast(node) || isSmoothing(node)))
      this.#alias(node, node.outputs[0]!, this.#nameOf(read));
    else this.#keep(node);
    return undefined;
  }

  /** Whether a node only computes the scale of a product: of the scale that its numbers were given at run time, and that of its weight. */
  #scales({ opType, inputs, outputs: [output] }: Node): boolean {
    const isScale = opType === 'Mul' && inputs.some((value) => value && this.#runtimeScales.has(value));
    if (isScale && output) this.#runtimeScales.add(output);
    return isScale;
  }

  #nameOf(value: Value): string {
    return this.#names.get(value) ?? value.name;
  }

  #namesOf(values: readonly (Value | undefined)[]): string[] {
    return values.map((value) => (value ? this.#nameOf(value) : ''));
  }

  #alias(node: Node, output: Value, name: string): void {
    this.#names.set(output, name);
    this.#stands.set(node, name);
  }

  /** A name that the view can give: no tensor of the file has it, or only one that is left out. */
  #free(wanted: string, fallback: string): string {
    const known = this.#graph.values.get(wanted);
    const isOpen = !known || !isDefined(known) || LEFT_OUT.has(known.producer?.opType ?? '');
    return isOpen && !this.#defined.has(wanted) && wanted !== '' ? wanted : fallback;
  }

  /** A stored weight under its name in the source. */
  #weightOf(value: Value): string {
    const stored = value.producer?.opType === 'Reshape' ? (value.producer.inputs[0] ?? value) : value;
    const { initializer, producer } = stored;
    if (!initializer || producer) return this.#nameOf(stored);
    const wanted = sourceWeight(stored.name);
    if (wanted === stored.name) return wanted;
    const known = this.#weights.get(wanted);
    if (known && known.field !== initializer.field) return stored.name;
    if (!known && this.#free(wanted, stored.name) !== wanted) return stored.name;
    this.#weights.set(wanted, { ...initializer, name: wanted });
    this.#defined.add(wanted);
    return wanted;
  }

  #emit(node: Node, made: NewNode): void {
    for (const name of made.outputs) this.#defined.add(name);
    this.#stands.set(node, made.outputs[0] ?? '');
    this.#nodes.push({ ...node.scanned, ...made });
  }

  #quantize(node: Node, value: Value, scale: Value, zero: Value | undefined): void {
    const [result] = node.outputs;
    if (!result) return;
    const levels = { scale, zero };
    if (node.opType === 'DynamicQuantizeLinear') this.#runtimeScales.add(scale);
    const name = value.initializer
      ? this.#weightOf(value)
      : (this.#activated.get(value) ?? this.#nameOf(value));
    this.#levels.set(result, levels);
    if (!isOwn(node)) return this.#alias(node, result, name);
    // Rounding that the network itself does changes its values.
    this.#emit(node, {
      opType: 'Identity',
      domain: '',
      name: node.name,
      inputs: [name],
      outputs: [result.name],
    });
    this.#held.set(result.name, held(result, levels));
  }

  #dequantize(node: Node, value: Value): void {
    const [result] = node.outputs;
    if (!result) return;
    const name = value.initializer && !value.producer ? this.#weightOf(value) : this.#nameOf(value);
    this.#alias(node, result, name);
    // Of a value that only whole numbers hold, the numbers are here.
    const isBehind =
      this.#held.has(name) && (this.#held.get(name)?.levels !== undefined || this.#isLost(name));
    if (isBehind && !this.#turned.has(value)) this.#held.set(name, { value: result });
  }

  /** Whether a value of the view comes out of a dropped activation, and nothing in the file was found to hold it. */
  #isLost(name: string): boolean {
    return this.#held.get(name) === undefined && this.#lostNames.has(name);
  }

  readonly #lostNames = new Set<string>();

  #startProduct(node: Node): boolean {
    const product = findProduct(node);
    if (!product) return false;
    for (const inner of product.nodes) this.#inside.add(inner);
    this.#products.set(product.last, product);
    return true;
  }

  #addProduct(node: Node, { product, nodes, bias }: IntegerProduct): void {
    const [x, weight] = product.inputs;
    const inputs = [this.#nameOf(x!), this.#weightOf(weight!), ...(bias ? [this.#weightOf(bias)] : [])];
    const opType = INTEGER_PRODUCTS.get(product.opType)!;
    const [output] = node.outputs;
    this.#emit(node, {
      opType,
      domain: '',
      name: ownName(product),
      inputs,
      outputs: [this.#nameOf(output!)],
    });
    for (const inner of [product, ...nodes]) this.#stands.set(inner, this.#nameOf(output!));
  }

  #addKernel(node: Node, kernel: Kernel): void {
    const { reads, levels: at } = kernel;
    const read =
      'pairs' in reads
        ? node.inputs.filter((_, i) => i >= reads.pairs && (i - reads.pairs) % 3 === 0)
        : reads.map((i) => node.inputs[i]);
    const [x, weight, bias] = read;
    const [output] = node.outputs;
    if (!output || !x) return this.#keep(node);
    const scale = at && node.inputs[at[0]];
    const levels = scale && { scale, zero: node.inputs[at[1]] };
    const isTurned = node.scanned.layout.get('channels_last') === 1 || this.#readsTurned(node);
    if (isTurned) this.#turned.add(output);
    const inputs = read.flatMap((value) =>
      value ? [value.initializer ? this.#weightOf(value) : this.#nameOf(value)] : [],
    );
    const name = levels ? this.#free(this.#kernelName(output, levels.scale), output.name) : output.name;
    if (levels) this.#levels.set(output, levels);
    const value = isTurned ? undefined : held(output, levels);
    const [own, opType] = [ownName(node), kernel.opType];
    const lost = levels && findLost({ node, opType, tensor: name, graph: this.#graph, zero: levels.zero });
    // A bias of a product is an Add: MatMul has none.
    const isSplit = opType === 'MatMul' && weight !== undefined && bias !== undefined;
    // A tensor that is named after its activation is the value after it.
    const isNamed = lost?.name !== undefined;
    const before = isNamed ? this.#free(beforeName(own, name), `${name}/before`) : name;
    const after = lost && !isNamed ? `${name}/after` : name;
    this.#names.set(output, after);
    if (isSplit) {
      const product = `${before}/product`;
      this.#emit(node, { opType, domain: '', name: own, inputs: inputs.slice(0, 2), outputs: [product] });
      this.#held.set(product, undefined);
      this.#emit(node, {
        opType: 'Add',
        domain: '',
        name: own,
        inputs: [product, inputs[2]!],
        outputs: [before],
      });
    } else this.#emit(node, { opType, domain: '', name: own, inputs, outputs: [before] });
    if (lost) {
      this.#held.set(before, undefined);
      this.#addActivation(node, before, after, lost);
    }
    this.#held.set(after, value);
  }

  #readsTurned(node: Node): boolean {
    return node.inputs.some((value) => value !== undefined && this.#turned.has(value));
  }

  /** What the source called the result of a kernel: quantizers name the tensor, or only its scale, after it. */
  #kernelName({ name, uses }: Value, scale: Value): string {
    const own = sourceName(name);
    if (own !== name) return own;
    const numbers = uses.find(({ opType }) => opType === 'DequantizeLinear')?.outputs[0]?.name;
    if (placeOfTensor({ name }) || numbers === undefined)
      return placeOfTensor({ name }) ? name : (scaledName(scale.name) ?? name);
    return sourceName(numbers);
  }

  #addActivation(node: Node, before: string, after: string, lost: Lost): void {
    const opType = operatorOfActivation(lost.name);
    this.#nodes.push({
      ...node.scanned,
      metadata: NO_METADATA,
      opType,
      domain: '',
      name: nameInTensor(after) ?? '',
      inputs: [before],
      outputs: [after],
    });
    this.#defined.add(after);
    this.#lost.set(before, { after, name: lost.name });
  }

  #moves(node: Node): boolean {
    if (node.opType === 'Cast' || node.opType === 'Clip') return true;
    return operatorOf(node)?.levels !== undefined;
  }

  /** A node that moves whole numbers moves the numbers that they mean. */
  #moveLevels(node: Node, read: Value): void {
    const levels = this.#levels.get(read)!;
    if (node.opType === 'Cast' || node.opType === 'Clip') {
      const [output] = node.outputs;
      if (!output) return;
      this.#levels.set(output, levels);
      if (this.#turned.has(read)) this.#turned.add(output);
      return this.#alias(node, output, this.#nameOf(read));
    }
    const outputs = node.outputs.map((output) =>
      output ? this.#free(sourceName(output.name), output.name) : '',
    );
    const isTurned = this.#readsTurned(node) && node.opType !== 'Transpose';
    node.outputs.forEach((output, k) => {
      if (!output) return;
      this.#levels.set(output, levels);
      this.#names.set(output, outputs[k]!);
      if (isTurned) this.#turned.add(output);
      this.#held.set(outputs[k]!, isTurned ? undefined : held(output, levels));
    });
    this.#emit(node, { ...node.scanned, name: ownName(node), inputs: this.#namesOf(node.inputs), outputs });
  }

  #keep(node: Node): void {
    const [output] = node.outputs;
    for (const captured of node.scanned.bodies ? node.reads : []) this.#keepCaptured(node, captured);
    const lost = output && findLost({ node, opType: node.opType, tensor: output.name, graph: this.#graph });
    if (!lost || !output) {
      const outputs = node.outputs.map((value) => (value ? this.#writtenName(value) : ''));
      this.#emit(node, { ...node.scanned, inputs: this.#namesOf(node.inputs), outputs });
      return;
    }
    // The node before a dropped activation has its tensor.
    const isTaken = lost.name !== undefined;
    const before = isTaken
      ? this.#free(beforeName(ownName(node), output.name), `${output.name}/before`)
      : output.name;
    const after = isTaken ? output.name : `${output.name}/after`;
    this.#names.set(output, before);
    this.#activated.set(output, after);
    const others = node.outputs.slice(1).map((value) => value?.name ?? '');
    this.#emit(node, { ...node.scanned, inputs: this.#namesOf(node.inputs), outputs: [before, ...others] });
    this.#held.set(before, { value: output });
    this.#held.set(after, undefined);
    this.#lostNames.add(after);
    if (isTaken) this.#taken.set(output, after);
    this.#addActivation(node, before, after, lost);
  }

  /** Bodies read tensors by the names of the file. */
  #keepCaptured(node: Node, value: Value): void {
    const name = this.#nameOf(value);
    if (name === value.name || this.#defined.has(value.name)) return;
    this.#emit(node, { opType: 'Identity', domain: '', name: '', inputs: [name], outputs: [value.name] });
  }

  /** A Cast behind a node has the tensor that the node had. */
  #writtenName(value: Value): string {
    const [user, ...others] = value.uses;
    const result = user?.outputs[0];
    if (!result || others.length > 0 || !isFloatCast(user) || !/_cast(?:_|$)|Cast/.test(value.name))
      return value.name;
    this.#names.set(value, result.name);
    this.#held.set(result.name, { value });
    return result.name;
  }
}

/** Nodes whose results have the name of another tensor in the view. */
const LEFT_OUT: ReadonlySet<string> = new Set(['Cast', 'DequantizeLinear']);
const NO_METADATA: ReadonlyMap<string, string> = new Map();

/** What `quantize/with-qdq` calls a tensor whose channels it scales before it rounds them. */
function isSmoothing({ outputs }: Node): boolean {
  return outputs.length === 1 && /\/smoothed(?:_\d+)?$/.test(outputs[0]?.name ?? '');
}

/** A node's name in the source: quantizers keep it, with an ending. */
function ownName({ name }: Node): string {
  return name.replace(/_quant$/, '');
}

/** The tensor that a node gave before it got that of an activation. */
function beforeName(node: string, tensor: string): string {
  return nameInTensor(tensor) === undefined ? '' : `${node}_output_0`;
}

/** Whole numbers can be made numbers with one scale. */
function held(value: Value, levels: Levels | undefined): Held | undefined {
  const dims = levels?.scale.initializer?.dims;
  return dims && dims.some((size) => size !== 1) ? undefined : { value, levels };
}
