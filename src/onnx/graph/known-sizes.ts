/** Shape arithmetic at one size of the inputs: the integers that nodes compute from sizes. */
import { operatorOf } from './operators/operators.js';
import type { Node, Value } from './graph.js';
import type { Constants } from './read-constants.js';

type List = readonly number[];
type ListRule = (lists: readonly List[], node: Node) => List | undefined;

const same: ListRule = ([first]) => first;

/** Element by element; a list of one is repeated. */
const combine =
  (result: (a: number, b: number) => number): ListRule =>
  ([a, b]) =>
    a &&
    b &&
    Array.from({ length: Math.max(a.length, b.length) }, (_, i) =>
      result(a[a.length === 1 ? 0 : i]!, b[b.length === 1 ? 0 : i]!),
    );

const RULES: Readonly<Record<string, ListRule>> = {
  Cast: same,
  Floor: same,
  Identity: same,
  Reshape: same,
  Squeeze: same,
  Unsqueeze: same,
  Concat: (lists) => lists.flat(),
  Gather: ([list, at]) => at?.map((i) => list!.at(i) ?? NaN),
  Slice: ([list, starts, ends, , steps]) =>
    starts && ends && (steps?.[0] ?? 1) === 1 ? list!.slice(starts[0], ends[0]) : undefined,
  Add: combine((a, b) => a + b),
  Sub: combine((a, b) => a - b),
  Mul: combine((a, b) => a * b),
  Div: combine((a, b) => Math.trunc(a / b)),
  ReduceProd: ([list]) => [list!.reduce((product, size) => product * size, 1)],
};

/** Reads lists of sizes in execution order: {@link KnownSizes.read} once for each node. */
export class KnownSizes {
  readonly #constants: Constants;
  readonly #dimsOf: (value: Value) => List | undefined;
  readonly #lists = new Map<Value, List>();

  constructor(constants: Constants, dimsOf: (value: Value) => List | undefined) {
    this.#constants = constants;
    this.#dimsOf = dimsOf;
  }

  /** The integers of a value; undefined if they are not known. */
  listOf(value: Value | undefined): List | undefined {
    return value && (this.#lists.get(value) ?? this.#constants.integersOf(value));
  }

  read(node: Node): void {
    const [output] = node.outputs;
    const rule = RULES[node.opType];
    if (!output || (!rule && !operatorOf(node)?.readsOnlySizes)) return;
    const list = rule ? this.#compute(rule, node) : this.#measure(node);
    if (list) this.#lists.set(output, list);
  }

  #compute(rule: ListRule, node: Node): List | undefined {
    const lists = node.inputs.map((value) => this.listOf(value));
    const isKnown = node.opType === 'Concat' ? lists.every(Boolean) : lists[0] !== undefined;
    return isKnown ? rule(lists as List[], node) : undefined;
  }

  #measure(node: Node): List | undefined {
    const dims = node.inputs[0] && this.#dimsOf(node.inputs[0]);
    if (!dims) return undefined;
    if (node.opType === 'Size') return [dims.reduce((product, size) => product * size, 1)];
    const attributes = this.#constants.attributesOf(node);
    return dims.slice(attributes.get('start')?.int ?? 0, attributes.get('end')?.int);
  }
}
