/** Maps of numbers, enlarged bilinearly without antialias, a row at a time: as in torch's `interpolate`. */
import type { Size } from './maps.js';

/** How places of the result lie in a map: by the centres of pixels (`align_corners=False`), or corner on corner. */
export type Alignment = 'half-pixel' | 'corners';

/** The numbers of sums between the two directions, and of shares: float32 as torch's, or float64. */
type Numbers = Float32ArrayConstructor | Float64ArrayConstructor;

/** For every place of an axis: the two inputs that it lies between, and the share of the second. */
interface Places {
  readonly first: Int32Array;
  readonly second: Int32Array;
  readonly share: Float32Array | Float64Array;
}

/** Draws maps of one size at another. */
export class BilinearRows {
  readonly #columns: number;
  readonly #width: number;
  readonly #down: Places;
  readonly #across: Places;
  readonly #line: Float32Array | Float64Array;

  constructor([rows, columns]: Size, [height, width]: Size, alignment: Alignment, numbers: Numbers) {
    this.#columns = columns;
    this.#width = width;
    this.#down = placesOf(rows, height, alignment, numbers);
    this.#across = placesOf(columns, width, alignment, numbers);
    this.#line = new numbers(columns);
  }

  /**
   * Writes a row of a map.
   *
   * @param maps - One map after the other; `start` is the first element of this one.
   * @param y - The row of the result.
   * @param into - Receives the row from element `at` on.
   */
  draw(maps: Float32Array, start: number, y: number, into: Float32Array | Float64Array, at: number): void {
    const line = this.#line;
    const upper = start + this.#down.first[y]! * this.#columns;
    const lower = start + this.#down.second[y]! * this.#columns;
    const below = this.#down.share[y]!;
    for (let x = 0; x < line.length; x++) line[x] = maps[upper + x]! * (1 - below) + maps[lower + x]! * below;
    const { first, second, share } = this.#across;
    for (let x = 0; x < this.#width; x++) {
      const right = share[x]!;
      into[at + x] = line[first[x]!]! * (1 - right) + line[second[x]!]! * right;
    }
  }
}

function placesOf(length: number, out: number, alignment: Alignment, numbers: Numbers): Places {
  const first = new Int32Array(out);
  const second = new Int32Array(out);
  const share = new numbers(out);
  for (let k = 0; k < out; k++) {
    const corner = out > 1 ? (k * (length - 1)) / (out - 1) : 0;
    const place = alignment === 'corners' ? corner : Math.max(0, ((k + 0.5) * length) / out - 0.5);
    first[k] = Math.min(Math.floor(place), length - 1);
    second[k] = Math.min(first[k]! + 1, length - 1);
    share[k] = place - first[k]!;
  }
  return { first, second, share };
}
