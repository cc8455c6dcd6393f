/** Where initializers are read, and how parameters lie in them. */
import type { Node, Value } from '../graph.js';

/** Where a node reads an initializer. A value that passes through Identity nodes is read by the first of them. */
export interface Site {
  readonly node: Node;
  readonly slot: number;
  readonly initializer: Value;
}

/** The site behind an input of a node; undefined if it is no initializer. */
export function siteOf(node: Node, slot: number): Site | undefined {
  const value = node.inputs[slot];
  if (!value) return undefined;
  if (value.initializer) return value.initializer.parts ? undefined : { node, slot, initializer: value };
  return value.producer && isIdentity(value.producer) ? siteOf(value.producer, 0) : undefined;
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
