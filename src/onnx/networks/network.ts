/**
 * A network while it is written down: nodes and parameters under the names of torch's modules.
 *
 * Tensors have the names that torchvision lists (`layer1.0.relu_1`), nodes those that TorchScript gives (`/layer1/layer1.0/relu_1/Relu`).
 */
import { ELEMENT_TYPE } from '../file/wire/schema.js';
import type { NewAttribute, NewNode } from '../file/wire/write-model.js';

/** A tensor of the network, and the number of its channels: axis 1 of a feature map, the last axis of tokens. */
export interface Value {
  readonly name: string;
  readonly channels: number;
}

/**
 * How a parameter starts without a file of weights: `filters` are random numbers scaled by their fan-in, `spread` random numbers
 * of this standard deviation, `fill` the same number everywhere. `values` and `indices` (integers) are computed by the architecture.
 */
export type Start =
  | { readonly filters: true }
  | { readonly spread: number }
  | { readonly fill: number }
  | { readonly values: () => readonly number[] }
  | { readonly indices: () => readonly number[] };

/** A parameter or buffer, under its key in the state dict. */
export interface Parameter {
  readonly key: string;
  readonly elemType: typeof ELEMENT_TYPE.float32 | typeof ELEMENT_TYPE.int64;
  readonly dims: readonly number[];
  readonly start: Start;
  /** Whether it belongs to the classifier, whose size follows the number of classes. */
  readonly isHead: boolean;
}

/** Whether a parameter follows from the architecture, so that no file needs to hold it. */
export function isComputed({ start }: Parameter): boolean {
  return 'values' in start || 'indices' in start;
}

/** Joins a module's path and a name in it. */
export function pathOf(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`;
}

/** All nodes and parameters of a network. */
export class Network {
  readonly nodes: NewNode[] = [];
  /** By key, in the order of the state dict. */
  readonly parameters: Map<string, Parameter> = new Map();
  readonly opset: number;
  /** Parameters that are added from now on belong to the classifier. */
  isHead: boolean = false;
  readonly #counts = new Map<string, number>();
  readonly #constants = new Map<string, string>();

  constructor(opset: number) {
    this.opset = opset;
  }

  /** How often something was counted before. */
  count(what: string): number {
    const before = this.#counts.get(what) ?? 0;
    this.#counts.set(what, before + 1);
    return before;
  }

  /**
   * The name under which torchvision lists a module or an operation. torchvision drops a number at the end (`_1`) and counts from 0 again.
   * So the second one named `ln` is `ln_1`, whatever its own name is.
   */
  listedName(path: string): string {
    const base = path.replace(/_\d+$/, '');
    const before = this.count(`name ${base}`);
    return before === 0 ? base : `${base}_${before}`;
  }

  parameter(key: string, dims: readonly number[], start: Start): string {
    const elemType = 'indices' in start ? ELEMENT_TYPE.int64 : ELEMENT_TYPE.float32;
    if (!this.parameters.has(key))
      this.parameters.set(key, { key, elemType, dims, start, isHead: this.isHead });
    return key;
  }

  /** Moves parameters whose keys start with a text to the end. */
  moveToEnd(start: string): void {
    const moved = [...this.parameters].filter(([key]) => key.startsWith(start));
    for (const [key, parameter] of moved) {
      this.parameters.delete(key);
      this.parameters.set(key, parameter);
    }
  }

  /** Adds a node under a module's path; its tensors get TorchScript's names. */
  node(
    path: string,
    opType: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, NewAttribute>>,
    outputs = 1,
  ): string[] {
    const base = `${scopeOf(path)}/${opType}`;
    const before = this.count(`node ${base}`);
    const name = before === 0 ? base : `${base}_${before}`;
    const tensors = Array.from({ length: outputs }, (_, k) => `${name}_output_${k}`);
    this.nodes.push({ name, opType, inputs, outputs: tensors, attributes });
    return tensors;
  }

  /** Renames the tensors of the node that was added last. */
  rename(...outputs: readonly string[]): void {
    this.nodes.push({ ...this.nodes.pop()!, outputs });
  }

  /** A constant: whole numbers, or one real number. Equal ones are written once. */
  constant(value: Exclude<NewAttribute, string>): string {
    const key = JSON.stringify(value);
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const attribute =
      typeof value === 'number' ? 'value_int' : 'float' in value ? 'value_float' : 'value_ints';
    const [name] = this.node('', 'Constant', [], { [attribute]: value });
    this.#constants.set(key, name!);
    return name!;
  }
}

/** TorchScript's scopes: a child of a Sequential repeats the path of that, `/layer1/layer1.0/conv1`. */
function scopeOf(path: string): string {
  if (path === '') return '';
  const segments: string[] = [];
  for (const atom of path.split('.')) {
    const before = segments.at(-1);
    segments.push(before !== undefined && /^\d+$/.test(atom) ? `${before}.${atom}` : atom);
  }
  return `/${segments.join('/')}`;
}
