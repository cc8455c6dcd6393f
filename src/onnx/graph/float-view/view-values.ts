/** The values of a float view while it is written: what tensors of the file are called there, and what the file has of each. */
import type { ScannedTensor } from '../../file/scan/scan-value.js';
import { isDefined, type Graph, type Levels, type Value } from '../graph.js';
import type { Held } from './view.js';
import { givesIntegers, sourceWeight } from './forms.js';

export class ViewValues {
  /** Weights under the names that they had. */
  readonly weights: Map<string, ScannedTensor> = new Map();
  /** Scale and zero point of tensors of whole numbers. */
  readonly levels: Map<Value, Levels> = new Map();
  /** Tensors with channels last, as one processor reads them. */
  readonly turned: Set<Value> = new Set();
  readonly #graph: Graph;
  /** What a tensor of the file is called, if it has another name. */
  readonly #names = new Map<Value, string>();
  /** What the file has of a value, where that is not the tensor of its name. */
  readonly #held = new Map<string, Held | undefined>();
  readonly #defined = new Set<string>();

  constructor(graph: Graph) {
    this.#graph = graph;
  }

  nameOf(value: Value): string {
    return this.#names.get(value) ?? value.name;
  }

  namesOf(values: readonly (Value | undefined)[]): string[] {
    return values.map((value) => (value ? this.nameOf(value) : ''));
  }

  /** Calls a tensor by the name of a value. */
  call(value: Value, name: string): void {
    this.#names.set(value, name);
  }

  /** Marks a name as that of a value. */
  define(name: string): void {
    this.#defined.add(name);
  }

  isDefined(name: string): boolean {
    return this.#defined.has(name);
  }

  /** A name, if it can be given: no tensor of the file has it, or only one that is left out. */
  free(wanted: string, fallback: string): string {
    const known = this.#graph.values.get(wanted);
    const isOpen = !known || !isDefined(known) || LEFT_OUT.has(known.producer?.opType ?? '');
    return isOpen && !this.#defined.has(wanted) && wanted !== '' ? wanted : fallback;
  }

  /** What is read of a tensor: a stored weight has its name in the source. */
  readName(value: Value): string {
    const stored = value.producer?.opType === 'Reshape' ? (value.producer.inputs[0] ?? value) : value;
    const { initializer, producer } = stored;
    if (!initializer || producer) return this.nameOf(value);
    const wanted = sourceWeight(stored.name);
    if (wanted === stored.name) return wanted;
    const known = this.weights.get(wanted);
    const isFree = known ? known.field === initializer.field : this.free(wanted, '') === wanted;
    if (!isFree) return stored.name;
    this.weights.set(wanted, { ...initializer, name: wanted });
    this.#defined.add(wanted);
    return wanted;
  }

  /** Says what the file has of a value: `undefined` if it has nothing. */
  hold(name: string, value: Value | undefined, levels?: Levels): void {
    this.#held.set(name, value && isOneScale(levels) ? { value, levels } : undefined);
  }

  /** Numbers of a value, if the file was only seen to have whole numbers for it. */
  holdNumbers(name: string, value: Value): void {
    const known = this.#held.get(name);
    if (this.#held.has(name) && (!known || known.levels)) this.#held.set(name, { value });
  }

  heldOf(name: string): Held | undefined {
    if (this.#held.has(name)) return this.#held.get(name);
    const value = this.#graph.values.get(name);
    return value && isDefined(value) && !(value.producer && givesIntegers(value.producer))
      ? { value }
      : undefined;
  }
}

/** Nodes whose results have the name of another tensor in the view. */
const LEFT_OUT: ReadonlySet<string> = new Set(['Cast', 'DequantizeLinear']);

/** Whole numbers can be made numbers with one scale. */
function isOneScale(levels: Levels | undefined): boolean {
  return levels?.scale.initializer?.dims.every((size) => size === 1) !== false;
}
