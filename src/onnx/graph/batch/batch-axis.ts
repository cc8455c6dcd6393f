/**
 * Where the batch lies in the sizes of a tensor. Tensors are row-major, so the place of the batch among the elements is the
 * number of elements in front of it. Every regrouping of axes keeps that number, so it shows where the batch is afterwards.
 */
import type { Dim } from '../../file/wire/schema.js';

/**
 * The axis of a tensor that grows with the batch. Its size is `outer · batch · inner`. The flattened tokens of a sequence-first
 * transformer have the batch inside (`outer` tokens); the windows of a Swin transformer have it outside (`inner` windows).
 */
export interface BatchAxis {
  readonly axis: number;
  readonly outer: number;
  readonly inner: number;
}

type Sizes = readonly number[];

export function productOf(sizes: Sizes): number {
  return sizes.reduce((product, size) => product * size, 1);
}

export function isSameSplit(a: BatchAxis, b: BatchAxis): boolean {
  return a.outer === b.outer && a.inner === b.inner;
}

/** The same split of the size at another axis. */
export function moveAxis(from: BatchAxis, axis: number): BatchAxis {
  return { ...from, axis };
}

/**
 * Where the batch may be after a Reshape, the likeliest place first. For a batch of 2 or more there is at most one place. A batch of
 * 1 could be any size of 1 between the elements in front of it and those after it, or part of the axis on either side.
 */
export function listReshapedAxes(from: BatchAxis, before: Sizes, after: Sizes, batch: number): BatchAxis[] {
  const inFront = productOf(before.slice(0, from.axis)) * from.outer;
  const found: BatchAxis[] = [];
  for (let axis = 0, ahead = 1; axis < after.length; ahead *= after[axis++]!) {
    const outer = inFront / ahead;
    const inner = after[axis]! / (outer * batch);
    if (Number.isInteger(outer) && Number.isInteger(inner)) found.push({ axis, outer, inner });
  }
  const last = after.length - 1;
  // The last axis usually holds features, which the next matrix product sums over.
  const rank = ({ axis, outer, inner }: BatchAxis): number => {
    if (outer === 1 && inner === 1) return axis === from.axis ? 0 : 1;
    return axis === last && axis > 0 ? 3 : outer === 1 ? 2 : 2.5;
  };
  return found.toSorted((a, b) => rank(a) - rank(b));
}

/** Where the batch is after Flatten, which joins the axes before `split` into one and the others into a second one. */
export function flattenAxis(from: BatchAxis, sizes: Sizes, split: number): BatchAxis {
  const isInFront = from.axis < split;
  return {
    axis: isInFront ? 0 : 1,
    outer: from.outer * productOf(sizes.slice(isInFront ? 0 : split, from.axis)),
    inner: from.inner * productOf(sizes.slice(from.axis + 1, isInFront ? split : undefined)),
  };
}

/** The symbolic name of the open batch size. */
export const BATCH_NAME = 'batch';

/** The sizes, with the batch left open. */
export function openBatch(dims: readonly Dim[], at: BatchAxis): Dim[] {
  return dims.map((size, axis) => (axis !== at.axis ? size : at.outer * at.inner === 1 ? BATCH_NAME : null));
}
