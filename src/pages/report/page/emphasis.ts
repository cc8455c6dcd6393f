/** Which points stand out on the map, and in what colours. This file uses no part of the browser. */
import type { Colouring } from './colouring.js';

/** The colours of the points, the group that is isolated, and the points that were gathered. */
export class Emphasis {
  readonly #onChange: () => void;
  #colouring: Colouring | undefined;
  #isolated: number | undefined;
  #gathered: ReadonlySet<number> | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Undefined if all points have the same colour. */
  get colouring(): Colouring | undefined {
    return this.#colouring;
  }

  /** Whether a point steps back; undefined if none does. */
  get isFaint(): ((point: number) => boolean) | undefined {
    const [colouring, isolated, gathered] = [this.#colouring, this.#isolated, this.#gathered];
    if (isolated === undefined && gathered === undefined) return undefined;
    return (point) =>
      (isolated !== undefined && colouring?.groupOf[point] !== isolated) || gathered?.has(point) === false;
  }

  colour(colouring: Colouring | undefined): void {
    this.#colouring = colouring;
    this.#onChange();
  }

  /** Lets all other groups step back; undefined lets none. */
  isolate(group: number | undefined): void {
    this.#isolated = group;
    this.#onChange();
  }

  /** Lets all other points step back; undefined lets none. */
  gather(points: ReadonlySet<number> | undefined): void {
    this.#gathered = points;
    this.#onChange();
  }
}
