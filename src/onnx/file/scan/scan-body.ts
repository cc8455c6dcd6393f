/**
 * The bodies of control-flow nodes (If, Loop, Scan, SequenceMap) and of functions. Only what they mean for the graph around
 * them is kept: a file can nest many small bodies, and their nodes are always copied as they are.
 */
import { scanAttribute } from './scan-attribute.js';
import { scanSparseTensor, scanTensor, type ScannedTensor } from './scan-value.js';
import { ELEMENT_BITS, GRAPH, isFloatType, NODE, normalDomain, VALUE_INFO } from '../wire/schema.js';
import type { Field, WireReader } from '../wire/wire.js';

/** An operator, as a node names it. */
export interface Operator {
  readonly domain: string;
  readonly opType: string;
  readonly overload: string;
}

/** An operator, and how many nodes have it. */
export interface CountedOperator extends Operator {
  readonly count: number;
}

/** Where a body is: an attribute of a node, which may itself be inside a body. */
export interface BodyPlace {
  readonly attribute: string;
  readonly opType: string;
  /** The name of the node, or of its first output. */
  readonly node: string;
  readonly parent: BodyPlace | undefined;
}

/** What the bodies of one node, or the nodes of one function, contain at any depth. */
export interface ScannedBodies {
  /** Tensors that they read from the graph around them. */
  readonly captures: ReadonlySet<string>;
  /** Tensors that they define, with the place of the first definition; undefined for the function itself. */
  readonly tensors: ReadonlyMap<string, BodyPlace | undefined>;
  /** Their named nodes, with the place of the first. */
  readonly nodes: ReadonlyMap<string, BodyPlace | undefined>;
  /** The operators of their nodes, by {@link operatorKey}. */
  readonly operators: ReadonlyMap<string, CountedOperator>;
  /** Tensors whose values lie in another file. */
  readonly external: readonly { readonly name: string; readonly tensor: ScannedTensor }[];
  /** The tensors whose values they state. */
  readonly held: HeldTensors;
}

/** How large tensors are together. */
export interface HeldTensors {
  /** Elements of floating-point tensors, lone numbers left out. */
  readonly floats: number;
  /** Bytes of all tensors. */
  readonly bytes: number;
}

/** The identity of an operator or function: ONNX allows the same name in several domains and overloads. */
export function operatorKey({ domain, opType, overload }: Operator): string {
  return JSON.stringify([domain, opType, overload]);
}

type Draft<T> = { -readonly [Key in keyof T]: T[Key] };

/** What one body, or a function, reads and defines itself. */
interface Scope {
  reads: Set<string>;
  readonly defined: string[];
}

/** Collects the bodies of a node, or the nodes of a function. */
export class BodyScanner {
  readonly #reader: WireReader;
  readonly #tensors = new Map<string, BodyPlace | undefined>();
  readonly #nodes = new Map<string, BodyPlace | undefined>();
  readonly #operators = new Map<string, Draft<CountedOperator>>();
  readonly #external: { name: string; tensor: ScannedTensor }[] = [];
  readonly #held = { floats: 0, bytes: 0 };
  #captures = new Set<string>();

  constructor(reader: WireReader) {
    this.#reader = reader;
  }

  /** What was found; the reader can be let go. */
  get result(): ScannedBodies {
    return {
      captures: this.#captures,
      tensors: this.#tensors,
      nodes: this.#nodes,
      operators: this.#operators,
      external: this.#external,
      held: this.#held,
    };
  }

  /**
   * Scans a graph that an attribute holds.
   *
   * @param place - Where it is. The caller may fill it later, because names can come after the graph.
   * @returns Whether anything was found that refers to the place.
   */
  addBody(field: Field, place: BodyPlace): boolean {
    const before = this.#definitions;
    this.#captures = union(this.#captures, this.#scanGraph(field, place));
    return this.#definitions > before;
  }

  /** Scans a node of a function, which reads nothing from outside. */
  addNode(field: Field): void {
    this.#scanNode(field, { reads: new Set(), defined: [] }, undefined);
  }

  /** @returns The names that the graph reads from around it. */
  #scanGraph(field: Field, place: BodyPlace): Set<string> {
    const reader = this.#reader;
    const scope: Scope = { reads: new Set(), defined: [] };
    reader.readBody(field, (inner) => {
      if (inner.number === GRAPH.node) this.#scanNode(inner, scope, place);
      else if (inner.number === GRAPH.initializer)
        this.#addInitializer(scanTensor(reader, inner), scope, place);
      else if (inner.number === GRAPH.sparseInitializer)
        this.#addInitializer(scanSparseTensor(reader, inner), scope, place);
      else if (inner.number === GRAPH.input) this.#define(scanName(reader, inner), scope, place);
      else if (inner.number === GRAPH.output) this.#read(scanName(reader, inner), scope);
    });
    for (const name of scope.defined) scope.reads.delete(name);
    return scope.reads;
  }

  #scanNode(field: Field, scope: Scope, place: BodyPlace | undefined): void {
    const reader = this.#reader;
    const operator = { domain: '', opType: '', overload: '', count: 0 };
    const places: Draft<BodyPlace>[] = [];
    const external: { attribute: string; tensor: ScannedTensor }[] = [];
    let name = '';
    let firstOutput: string | undefined;
    reader.readBody(field, (inner) => {
      if (inner.number === NODE.input) this.#read(reader.readName(inner), scope);
      else if (inner.number === NODE.output) {
        const output = reader.readName(inner);
        firstOutput ??= output;
        this.#define(output, scope, place);
      } else if (inner.number === NODE.name) name = reader.readName(inner);
      else if (inner.number === NODE.opType) operator.opType = reader.readName(inner);
      else if (inner.number === NODE.domain) operator.domain = normalDomain(reader.readName(inner));
      else if (inner.number === NODE.overload) operator.overload = reader.readName(inner);
      else if (inner.number === NODE.attribute) {
        const draft = { attribute: '', opType: '', node: '', parent: place };
        const before = this.#definitions;
        const attribute = scanAttribute(reader, inner, (graph) => {
          scope.reads = union(scope.reads, this.#scanGraph(graph, draft));
        });
        draft.attribute = attribute.name;
        if (this.#definitions > before) places.push(draft);
        for (const tensor of attribute.tensors) {
          this.#hold(tensor);
          if (isExternal(tensor)) external.push({ attribute: attribute.name, tensor });
        }
      }
    });
    if (name !== '') this.#add(this.#nodes, name, place);
    const key = operatorKey(operator);
    this.#add(this.#operators, key, operator);
    this.#operators.get(key)!.count++;
    for (const draft of places) {
      draft.opType = operator.opType;
      draft.node = name || (firstOutput ?? '');
    }
    for (const { attribute, tensor } of external)
      this.#addExternal(tensor, `${firstOutput ?? name}.${attribute}`);
  }

  #read(name: string, { reads }: Scope): void {
    if (name === '' || reads.has(name)) return;
    this.#reader.countPart();
    reads.add(name);
  }

  #define(name: string, { defined }: Scope, place: BodyPlace | undefined): void {
    if (name === '') return;
    defined.push(name);
    this.#add(this.#tensors, name, place);
  }

  #add<Item>(into: Map<string, Item>, key: string, item: Item): void {
    if (into.has(key)) return;
    this.#reader.countPart();
    into.set(key, item);
  }

  /** How many names refer to places. */
  get #definitions(): number {
    return this.#tensors.size + this.#nodes.size;
  }

  #addInitializer(tensor: ScannedTensor, scope: Scope, place: BodyPlace): void {
    this.#define(tensor.name, scope, place);
    this.#hold(tensor);
    if (isExternal(tensor)) this.#addExternal(tensor, tensor.name);
  }

  #hold({ elemType, dims }: ScannedTensor): void {
    const count = dims.reduce((product, size) => product * size, 1);
    if (isFloatType(elemType) && count > 1) this.#held.floats += count;
    this.#held.bytes += Math.ceil((count * (ELEMENT_BITS.get(elemType) ?? 0)) / 8);
  }

  #addExternal(tensor: ScannedTensor, name: string): void {
    this.#reader.countPart();
    this.#external.push({ name, tensor });
  }
}

function isExternal(tensor: ScannedTensor): boolean {
  return [tensor, ...(tensor.parts ?? [])].some((part) => part.external !== undefined);
}

/** Adds the smaller set to the larger one; deep nesting would otherwise copy names over and over. */
function union(a: Set<string>, b: Set<string>): Set<string> {
  const [small, large] = a.size < b.size ? [a, b] : [b, a];
  for (const name of small) large.add(name);
  return large;
}

/** The name of a ValueInfoProto. */
function scanName(reader: WireReader, field: Field): string {
  let name = '';
  reader.readBody(field, (inner) => {
    if (inner.number === VALUE_INFO.name) name = reader.readName(inner);
  });
  return name;
}
