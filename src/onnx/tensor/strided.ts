/** Tensors that are views: elements of a storage at regular distances. */
import { elementCount } from './tensor.js';

/** Where the elements of a view lie. Offset and strides count elements. */
export interface StridedView {
  readonly offset: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];
}

/** The elements of a storage between the first and the last one of a view. */
export function spanOf({ offset, dims, strides }: StridedView): {
  readonly start: number;
  readonly count: number;
} {
  if (dims.includes(0)) return { start: 0, count: 0 };
  return { start: offset, count: dims.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, 1) };
}

/** Whether the elements lie next to each other in C order. */
export function isContiguous({ dims, strides }: StridedView): boolean {
  if (dims.includes(0)) return true;
  let expected = 1;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    // The stride of an axis of size 1 means nothing.
    if (dims[axis] !== 1 && strides[axis] !== expected) return false;
    expected *= dims[axis]!;
  }
  return true;
}

const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array } as const;

/** Copies the elements of a view, each of 1, 2, 4 or 8 bytes, into C order. `span` are the bytes of {@link spanOf}. */
export function gatherView(
  span: ArrayBuffer,
  { dims, strides }: StridedView,
  elementBytes: number,
): ArrayBuffer {
  const ArrayOf = ARRAYS[elementBytes as keyof typeof ARRAYS];
  const source = new ArrayOf(span) as Uint32Array;
  const count = elementCount(dims);
  const target = new ArrayOf(count) as Uint32Array<ArrayBuffer>;
  const index = dims.map(() => 0);
  let from = 0;
  for (let to = 0; to < count; to++) {
    target[to] = source[from]!;
    // Counts up as an odometer does, last axis first.
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      from += strides[axis]!;
      if (++index[axis]! < dims[axis]!) break;
      from -= index[axis]! * strides[axis]!;
      index[axis] = 0;
    }
  }
  return target.buffer;
}
