/** The best rows of a query so far. */

/** A row and how near it is; larger is nearer. */
export interface RankedRow {
  readonly row: number;
  readonly value: number;
}

/** Keeps the `most` best rows, nearest first; of equally near ones, those of lower row numbers. */
export class BestRows {
  readonly #rows: RankedRow[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get rows(): readonly RankedRow[] {
    return this.#rows;
  }

  /** Only a larger value, or an equal one of a lower row, gets in; -Infinity while there is room. */
  get least(): number {
    return this.#rows.length < this.#most ? -Infinity : this.#rows.at(-1)!.value;
  }

  /** Adds a row if it is good enough; one whose value is not finite never is. */
  add(added: RankedRow): void {
    if (!Number.isFinite(added.value)) return;
    let from = 0;
    let to = this.#rows.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (isBetter(added, this.#rows[middle]!)) to = middle;
      else from = middle + 1;
    }
    if (from === this.#most) return;
    this.#rows.splice(from, 0, added);
    if (this.#rows.length > this.#most) this.#rows.pop();
  }
}

function isBetter(a: RankedRow, b: RankedRow): boolean {
  return a.value > b.value || (a.value === b.value && a.row < b.row);
}
