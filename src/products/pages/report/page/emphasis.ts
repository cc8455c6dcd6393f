/** Which points stand out on the map, and in what colours. This file uses no part of the browser. */
import type { Colouring } from './colouring.js';

/** What stands out; all that is undefined leaves the points as they are. */
export interface Emphasis {
  /** The colours of the points; undefined if all have the same. */
  readonly colouring?: Colouring | undefined;
  /** The group of the colouring that is isolated. */
  readonly isolated?: number | undefined;
  readonly gathered?: ReadonlySet<number> | undefined;
  /** The points that a filter keeps. The others cannot be pointed at. */
  readonly kept?: ReadonlySet<number> | undefined;
}

/** Whether a point steps back; undefined if none does. */
export function faintTest(emphasis: Emphasis): ((point: number) => boolean) | undefined {
  const { colouring, isolated, gathered, kept } = emphasis;
  if (isolated === undefined && gathered === undefined && kept === undefined) return undefined;
  return (point) =>
    (isolated !== undefined && colouring?.groupOf[point] !== isolated) ||
    gathered?.has(point) === false ||
    kept?.has(point) === false;
}
