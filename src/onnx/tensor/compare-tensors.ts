/** Compares two tensors. */
import { fromFloat16Bits } from './float16.js';
import type { Tensor } from './tensor.js';

/** How much two tensors differ. */
export interface Difference {
  /** Whether all elements are the same, bit for bit (any two NaN count as the same). */
  readonly isEqual: boolean;
  /** The largest absolute difference; Infinity if dtype, dims or text differ. */
  readonly maxDifference: number;
  /** `maxDifference`, divided by the largest magnitude of the expected tensor. */
  readonly maxRelative: number;
}

const APART: Difference = { isEqual: false, maxDifference: Infinity, maxRelative: Infinity };

/** Compares a tensor with the expected one. */
export function compareTensors(actual: Tensor, expected: Tensor): Difference {
  const isSameShape =
    actual.dtype === expected.dtype &&
    actual.dims.length === expected.dims.length &&
    actual.dims.every((size, axis) => size === expected.dims[axis]);
  if (!isSameShape) return APART;
  let isEqual = true;
  let maxDifference = 0;
  let largest = 0;
  for (let i = 0; i < expected.data.length; i++) {
    const [a, b] = [actual.data[i]!, expected.data[i]!];
    if (typeof a === 'string' || typeof b === 'string') {
      if (a !== b) return APART;
      continue;
    }
    const [x, y] =
      actual.dtype === 'float16'
        ? [fromFloat16Bits(Number(a)), fromFloat16Bits(Number(b))]
        : [Number(a), Number(b)];
    if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
    if (Object.is(a, b) || (Number.isNaN(x) && Number.isNaN(y))) continue;
    isEqual = false;
    const difference = x === y ? 0 : Math.abs(x - y);
    maxDifference = Math.max(maxDifference, Number.isNaN(difference) ? Infinity : difference);
  }
  return { isEqual, maxDifference, maxRelative: maxDifference === 0 ? 0 : maxDifference / (largest || 1) };
}
