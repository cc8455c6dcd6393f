/** The best rows of a query. */

/** A row and its value; a larger value is nearer. */
export interface RankedRow {
  readonly row: number;
  readonly value: number;
}

/** Keeps the `most` best rows, nearest first. Among equally near rows, lower row numbers come first. */
export class BestRows {
  readonly #rows: RankedRow[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get rows(): readonly RankedRow[] {
    return this.#rows;
  }

  /** A new row needs a larger value than this, or an equal value and a lower row number. -Infinity while there is room. */
  get least(): number {
    return this.#rows.length < this.#most ? -Infinity : this.#rows.at(-1)!.value;
  }

  /** Adds a row if it is good enough. Values that are not finite are not. */
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
