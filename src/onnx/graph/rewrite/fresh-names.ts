/** Names for the additions of a rewrite, distinct from every name in the written graph. */
import { addNamesInside } from '../scopes.js';
import type { Cut } from './prune.js';

/** Gives out each name once. */
export class FreshNames {
  readonly #taken: Set<string>;
  readonly #reserved: ReadonlySet<string>;
  /** Where to go on counting, by wanted name. */
  readonly #next = new Map<string, number>();

  /**
   * @param taken - Names in use, in any scope.
   * @param reserved - Names of outputs; only {@link claim} gives them out.
   */
  constructor(taken: Iterable<string>, reserved: Iterable<string> = []) {
    this.#taken = new Set(taken);
    this.#reserved = new Set(reserved);
  }

  /** Takes the wanted name, with a number appended if it is in use or reserved. */
  take(wanted: string): string {
    let name = wanted;
    let k = this.#next.get(wanted) ?? 1;
    for (; this.#taken.has(name) || this.#reserved.has(name); k++) name = `${wanted}_${k}`;
    this.#next.set(wanted, k);
    this.#taken.add(name);
    return name;
  }

  /** A copy that gives out its own names: two rewrites of one rewrite then have the same names. */
  fork(): FreshNames {
    const copy = new FreshNames(this.#taken, this.#reserved);
    for (const [wanted, k] of this.#next) copy.#next.set(wanted, k);
    return copy;
  }

  /** Takes a reserved name, or a similar one if it is in use. */
  claim(wanted: string): string {
    if (this.#taken.has(wanted)) return this.take(wanted);
    this.#taken.add(wanted);
    return wanted;
  }
}

/** The names of tensors in a cut graph, including those inside bodies. */
export function keptNames(cut: Cut): Set<string> {
  const names = new Set([...cut.values].map((value) => value.name));
  for (const node of cut.nodes) addNamesInside(node.scanned, names);
  return names;
}
