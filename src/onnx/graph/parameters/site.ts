/** Where initializers are read, and how parameters lie in them. */
import type { Node, Value } from '../graph.js';

/** Where a node reads an initializer. A value that passes through Identity nodes is read by the first of them. */
export interface Site {
  readonly node: Node;
  readonly slot: number;
  readonly initializer: Value;
}

/** The sites behind Identity nodes that were passed: a chain of them is walked once, and a circle ends. */
const behind = new WeakMap<Node, Site | undefined>();

/** The site behind an input of a node; undefined if it is no initializer. */
export function siteOf(node: Node, slot: number): Site | undefined {
  const passed: Node[] = [];
  let found: Site | undefined;
  for (let [at, place] = [node, slot]; ; [at, place] = [passed.at(-1)!, 0]) {
    const value = at.inputs[place];
    const { initializer, producer } = value ?? {};
    if (initializer && !initializer.parts) found = { node: at, slot: place, initializer: value! };
    if (initializer || !producer || !isIdentity(producer)) break;
    if (behind.has(producer)) {
      found = behind.get(producer);
      break;
    }
    behind.set(producer, undefined);
    passed.push(producer);
  }
  for (const identity of passed) behind.set(identity, found);
  return found;
}

export function isIdentity({ domain, opType }: Node): boolean {
  return domain === '' && opType === 'Identity';
}

/** The sizes of a parameter as torch has them. Axis `i` of the initializer is axis `perm[i]` of the parameter; null if they are the same. */
export function torchDims({ initializer }: Value, perm: readonly number[] | null): readonly number[] {
  const { dims } = initializer!;
  return perm ? inverse(perm).map((axis) => dims[axis]!) : dims;
}

/** The order that undoes another one. */
export function inverse(order: readonly number[]): number[] {
  return order.map((_, axis) => order.indexOf(axis));
}
