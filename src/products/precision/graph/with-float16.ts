/** A rewrite → the same one with nodes in float16: converted constants, and one cast per tensor and direction. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { NewNode, TensorType } from '../../../onnx/file/wire/write-model.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { tensorType, type Node, type Value } from '../../../onnx/graph/graph.js';
import type { FreshNames } from '../../../onnx/graph/rewrite/fresh-names.js';
import { RewriteChanges } from '../../../onnx/graph/rewrite/rewrite-changes.js';
import type { NewElements, Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { NodeChoice } from './choose-nodes.js';
import { constantTensor, isConstant } from './constants.js';
import type { ElementTypeOf } from './element-types.js';
import { readsAnyType } from './half-forms.js';

const { float16, float32 } = ELEMENT_TYPE;

/** A rewrite in float16, and what was done. */
export interface Float16Rewrite {
  readonly rewrite: Rewrite;
  /** The number of casts between float32 and float16. */
  readonly casts: number;
  /** Constants that nodes read in float16 now, each once. */
  readonly converted: readonly Value[];
}

/** The float32 constants that nodes would read in float16, each once. */
export function constantsRead(nodes: Iterable<Node>, typeOf: ElementTypeOf): Value[] {
  const values = new Set<Value>();
  for (const { inputs } of nodes)
    for (const value of inputs)
      if (value && typeOf(value) === float32 && isConstant(value) && constantTensor(value)) values.add(value);
  return [...values];
}

/**
 * Gives the chosen nodes float16 tensors. A tensor that something else reads as well keeps its name and float32; outputs, added
 * parts and bodies therefore read what they read before.
 *
 * @param halves - The elements of all {@link constantsRead} as float16.
 */
export function withFloat16(
  rewrite: Rewrite,
  { half }: NodeChoice,
  typeOf: ElementTypeOf,
  halves: ReadonlyMap<Value, Uint8Array>,
): Float16Rewrite {
  const changes = new Float16Changes(rewrite, half);
  for (const value of rewrite.cut.values)
    if (typeOf(value) === float32) changes.apply(value, halves.get(value));
  return changes.result();
}

class Float16Changes {
  readonly #rewrite: Rewrite;
  readonly #half: ReadonlySet<Node>;
  readonly #names: FreshNames;
  /** Where added nodes read a tensor first: before a node, or (null) at the end. */
  readonly #addedReaders = new Map<string, Node | null>();
  readonly #changes: RewriteChanges;
  readonly #before = new Map<Node, NewNode[]>();
  readonly #back: NewNode[] = [];
  readonly #retyped: Map<ScannedTensor, NewElements>;
  readonly #restated: Map<Value, TensorType>;
  readonly #outputs: ReadonlySet<string>;
  readonly #converted: Value[] = [];
  #casts = 0;

  constructor(rewrite: Rewrite, half: ReadonlySet<Node>) {
    this.#rewrite = rewrite;
    this.#half = half;
    this.#names = rewrite.names.fork();
    this.#retyped = new Map(rewrite.retyped);
    this.#restated = new Map(rewrite.restated);
    this.#changes = new RewriteChanges(rewrite);
    this.#outputs = new Set(rewrite.outputs.map(({ tensor }) => tensor));
    for (const [node, { before }] of rewrite.edits)
      for (const { inputs } of before) for (const name of inputs) this.#addReader(name, node);
    for (const { inputs } of rewrite.back) for (const name of inputs) this.#addReader(name, null);
  }

  apply(value: Value, halves: Uint8Array | undefined): void {
    const readers = value.uses.filter((node) => this.#rewrite.cut.nodes.has(node));
    const inHalf = readers.filter((node) => this.#half.has(node));
    const isMade = value.producer !== undefined && this.#half.has(value.producer);
    if (!isMade && inHalf.length === 0) return;
    const isReadAsFloat32 =
      this.#outputs.has(value.name) ||
      this.#addedReaders.has(value.name) ||
      readers.some((node) => !this.#half.has(node) && !readsAnyType(node));
    if (!isReadAsFloat32 && (isMade || halves)) this.#retype(value, halves);
    else if (isMade) this.#castBack(value, readers, inHalf);
    else this.#addHalf(value, inHalf, halves);
  }

  result(): Float16Rewrite {
    for (const [node, casts] of this.#before) this.#changes.editOf(node).before.unshift(...casts);
    const { rewrite } = this.#changes;
    return {
      rewrite: {
        ...rewrite,
        back: [...this.#back, ...rewrite.back],
        restated: this.#restated,
        retyped: this.#retyped,
        names: this.#names,
      },
      casts: this.#casts,
      converted: this.#converted,
    };
  }

  /** Nothing reads the tensor as float32: it becomes float16 under its own name. */
  #retype(value: Value, halves: Uint8Array | undefined): void {
    if (halves) {
      this.#retyped.set(constantTensor(value)!, { elemType: float16, data: halves });
      this.#converted.push(value);
    }
    const stated = this.#restated.get(value) ?? tensorType(value);
    if (stated) this.#restated.set(value, { elemType: float16, dims: stated.dims ?? null });
  }

  /** A float16 node computes the tensor, and something reads it as float32: that gets a cast under the tensor's own name. */
  #castBack(value: Value, readers: readonly Node[], inHalf: readonly Node[]): void {
    const name = this.#nameFor(value);
    const producer = value.producer!;
    for (const [slot, output] of producer.outputs.entries())
      if (output === value) this.#changes.editOf(producer).outputs.set(slot, name);
    this.#rename(value, inHalf, name);
    const others = readers.filter((node) => !this.#half.has(node));
    this.#addCast(name, value.name, float32, this.#firstOf(value, others));
  }

  /** The tensor stays float32, and float16 nodes read a copy. */
  #addHalf(value: Value, inHalf: readonly Node[], halves: Uint8Array | undefined): void {
    const name = this.#nameFor(value);
    this.#rename(value, inHalf, name);
    // A ConstantOfShape holds one element for a tensor of any size.
    if (halves && value.producer?.opType !== 'ConstantOfShape') {
      const { dims } = constantTensor(value)!;
      this.#changes.tensors.push({ name, elemType: float16, dims, data: halves });
      this.#converted.push(value);
    } else this.#addCast(value.name, name, float16, inHalf[0]!);
  }

  #addCast(from: string, to: string, elemType: number, before: Node | null): void {
    this.#casts++;
    const name = this.#names.take('tapir/precision/Cast');
    const cast: NewNode = {
      name,
      opType: 'Cast',
      inputs: [from],
      outputs: [to],
      attributes: { to: elemType },
    };
    if (before === null) this.#back.push(cast);
    else this.#before.set(before, [...(this.#before.get(before) ?? []), cast]);
  }

  /** The first kept node that needs the float32 tensor, itself or through nodes added before it; null if only the end does. */
  #firstOf(value: Value, readers: readonly Node[]): Node | null {
    const added = this.#addedReaders.get(value.name) ?? undefined;
    const all = added ? [...readers, added] : readers;
    return all.reduce<Node | null>((first, node) => (first && first.index < node.index ? first : node), null);
  }

  #addReader(name: string, node: Node | null): void {
    const known = this.#addedReaders.get(name);
    if (known && (node === null || known.index <= node.index)) return;
    this.#addedReaders.set(name, node);
  }

  #rename(value: Value, readers: readonly Node[], name: string): void {
    for (const reader of readers)
      for (const [slot, input] of reader.inputs.entries())
        if (input === value) this.#changes.editOf(reader).inputs.set(slot, name);
  }

  #nameFor(value: Value): string {
    return this.#names.take(`${value.name}/float16`);
  }
}
