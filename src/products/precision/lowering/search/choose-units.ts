/**
 * Chooses what is computed in 8 bits by a linear model of the vectors: to first order, the error of a choice is the sum of the errors
 * that its units make alone, with their signs. So a unit that cancels the error of another one counts, which losses of single units
 * cannot tell.
 */
import { dot } from './photo-rows.js';

/** The errors of single units on some rows. */
export interface UnitErrors {
  /** For each row, the vector without rounding. */
  readonly exact: readonly Float32Array[];
  /** For each unit and row, what the vector gains when the unit alone is rounded. */
  readonly errors: readonly (readonly Float32Array[])[];
  /** What each unit saves. */
  readonly savings: readonly number[];
}

/** The linear model as products of vectors: choices then cost no vectors. */
export class LossModel {
  readonly #units: number;
  readonly #squares: Float64Array;
  /** `[row][unit]`: exact · error. */
  readonly #along: readonly Float64Array[];
  /** `[row][unit × units]`: error · error. */
  readonly #gram: readonly Float64Array[];

  constructor({ exact, errors }: UnitErrors) {
    this.#units = errors.length;
    this.#squares = Float64Array.from(exact, (vector) => dot(vector, vector));
    this.#along = exact.map((vector, row) => Float64Array.from(errors, (of) => dot(vector, of[row]!)));
    this.#gram = exact.map((_, row) => {
      const gram = new Float64Array(this.#units ** 2);
      for (let a = 0; a < this.#units; a++)
        for (let b = 0; b <= a; b++)
          gram[a * this.#units + b] = gram[b * this.#units + a] = dot(errors[a]![row]!, errors[b]![row]!);
      return gram;
    });
  }

  /** The sums that decide about a choice, which `move` keeps up to date. */
  start(chosen: ReadonlySet<number>): ChoiceSums {
    const sums: ChoiceSums = { along: new Float64Array(this.rows), square: new Float64Array(this.rows) };
    const grown = new Set<number>();
    for (const unit of chosen) {
      this.move(sums, grown, unit, 1);
      grown.add(unit);
    }
    return sums;
  }

  get rows(): number {
    return this.#squares.length;
  }

  /** Adds a unit to a choice that does not have it, or (-1) takes one away. `chosen` is the choice before. */
  move(sums: ChoiceSums, chosen: ReadonlySet<number>, unit: number, sign: 1 | -1): void {
    for (let row = 0; row < this.rows; row++) {
      const { along, square } = this.#step(row, chosen, unit, sign);
      sums.along[row]! += along;
      sums.square[row]! += square;
    }
  }

  /** The loss after a step: high powers, so that the worst rows count most. */
  lossAfter(sums: ChoiceSums, chosen: ReadonlySet<number>, unit: number, sign: 1 | -1): number {
    let total = 0;
    for (let row = 0; row < this.rows; row++) {
      const { along, square } = this.#step(row, chosen, unit, sign);
      total += this.#lossOf(row, sums.along[row]! + along, sums.square[row]! + square) ** POWER;
    }
    return total ** (1 / POWER);
  }

  loss(sums: ChoiceSums): number {
    let total = 0;
    for (let row = 0; row < this.rows; row++)
      total += this.#lossOf(row, sums.along[row]!, sums.square[row]!) ** POWER;
    return total ** (1 / POWER);
  }

  #step(
    row: number,
    chosen: ReadonlySet<number>,
    unit: number,
    sign: 1 | -1,
  ): { along: number; square: number } {
    const gram = this.#gram[row]!;
    const from = unit * this.#units;
    let cross = 0;
    for (const other of chosen) cross += gram[from + other]!;
    const own = gram[from + unit]!;
    // |e ± u|² - |e|²; taking away, `cross` holds the unit itself.
    const square = sign === 1 ? 2 * cross + own : own - 2 * cross;
    return { along: sign * this.#along[row]![unit]!, square };
  }

  /** 1 - cosine of exact and exact + error, from their products. */
  #lossOf(row: number, along: number, square: number): number {
    const exact = this.#squares[row]!;
    const length = Math.sqrt(exact * Math.max(0, exact + 2 * along + square));
    return length === 0 ? (square > 0 ? 1 : 0) : Math.max(0, 1 - (exact + along) / length);
  }
}

const POWER = 4;

/** Sums over the chosen units, for each row. */
export interface ChoiceSums {
  readonly along: Float64Array;
  readonly square: Float64Array;
}

/** Chooses units that save most while the modelled loss stays below a limit. */
export function chooseUnits(model: LossModel, savings: readonly number[], limit: number): Set<number> {
  const chosen = new Set(savings.keys());
  const sums = model.start(chosen);
  // Takes away what lowers the loss most for what it saves.
  for (let loss = model.loss(sums); loss > limit && chosen.size > 0; loss = model.loss(sums)) {
    let [best, most] = [-1, -Infinity];
    for (const unit of chosen) {
      const gain = (loss - model.lossAfter(sums, chosen, unit, -1)) / savings[unit]!;
      if (gain > most) [best, most] = [unit, gain];
    }
    model.move(sums, chosen, best, -1);
    chosen.delete(best);
  }
  // What was taken early may fit again.
  const left = [...savings.keys()].filter((unit) => !chosen.has(unit));
  for (const unit of left.toSorted((a, b) => savings[b]! - savings[a]!)) {
    if (model.lossAfter(sums, chosen, unit, 1) > limit) continue;
    model.move(sums, chosen, unit, 1);
    chosen.add(unit);
  }
  return chosen;
}
