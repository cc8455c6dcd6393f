/** Groups of rows, joined pair by pair. */

/** A forest with a tree per group (union–find with path halving): 4 bytes a row. The root of a group is its first row. */
export class RowGroups {
  readonly #parents: Int32Array;

  constructor(rows: number) {
    this.#parents = Int32Array.from({ length: rows }, (_, row) => row);
  }

  /** The first row of a row's group. */
  find(row: number): number {
    const parents = this.#parents;
    let at = row;
    while (parents[at]! !== at) at = parents[at] = parents[parents[at]!]!;
    return at;
  }

  join(a: number, b: number): void {
    const first = this.find(a);
    const second = this.find(b);
    this.#parents[Math.max(first, second)] = Math.min(first, second);
  }

  /** The groups of two rows or more, each in order, by their first rows. */
  list(): number[][] {
    const groups = new Map<number, number[]>();
    for (let row = 0; row < this.#parents.length; row++) {
      const first = this.find(row);
      if (first === row) continue;
      const group = groups.get(first);
      if (group) group.push(row);
      else groups.set(first, [first, row]);
    }
    return [...groups.values()].toSorted(([a], [b]) => a! - b!);
  }
}
