/** Rules of operators that pick elements: their gradients go back to where the elements came from. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom, TO_THE_END } from '../backward/graph-math.js';

/** Since this operator set, scatters can add. */
export const SCATTER_ADDS = 16;

/** Adds updates to zeros at indices along an axis; both have the dims of the updates. */
function scatterAdd(b: Backward, updates: string, indices: string, axis: number): string {
  if (b.opset < SCATTER_ADDS)
    b.refuse(
      `its gradient adds up elements of one place, which needs operator set ${SCATTER_ADDS}; convert the model first (onnx.version_converter)`,
    );
  return b.scatterAdd('ScatterElements', b.shape(b.value(0)), indices, updates, { axis });
}

/**
 * Gather: one constant index is padded back into place. Others are scattered, or, before operator set 16, multiplied by the matrix that
 * marks which row came from where.
 */
const gather: Rule = (b) => [
  () => {
    const [data, indices] = [b.value(0), b.value(1)];
    const rank = b.rank(data);
    const axis = b.axis(0);
    const added = b.rank(indices);
    const [only, ...others] = b.constant(1) ?? [];
    const size = b.dims(data)[axis];
    const lists = b.dims(b.output(0));
    // The axes of the indices become one: [before, indices, after].
    const flat =
      added === 1
        ? b.dy
        : added === 0
          ? b.unsqueeze(b.dy, [axis])
          : flattenAxes(b, b.dy, lists.length, axis, added);
    if (only !== undefined && others.length === 0 && typeof size === 'number') {
      const at = b.wrap(only, size);
      const before = Array.from({ length: rank }, (_, i) => (i === axis ? at : 0));
      const after = Array.from({ length: rank }, (_, i) => (i === axis ? size - at - 1 : 0));
      return b.pad(flat, [...before, ...after]);
    }
    const list = b.cast(b.reshape(b.input(1), [-1]), ELEMENT_TYPE.int64);
    if (b.opset < SCATTER_ADDS) return gatherByProduct(b, flat, list, rank, axis);
    const aligned = b.reshape(
      list,
      Array.from({ length: rank }, (_, i) => (i === axis ? -1 : 1)),
    );
    return scatterAdd(b, flat, b.expand(aligned, b.sizes(flat)), axis);
  },
  () => undefined,
];

/** Makes several neighbouring axes one. */
function flattenAxes(b: Backward, input: string, rank: number, axis: number, count: number): string {
  const sizes = b.sizes(input);
  const before = axis === 0 ? [] : [b.slice(sizes, [0], [0], [axis])];
  const after = axis + count === rank ? [] : [b.slice(sizes, [0], [axis + count], [TO_THE_END])];
  return b.reshape(input, b.concat([...before, b.ints([-1]), ...after], 0));
}

/** Which element of the axis each index took, as a matrix of ones and zeros; its product with the gradient adds them up. */
function gatherByProduct(b: Backward, flat: string, list: string, rank: number, axis: number): string {
  // onnxruntime has OneHot for float32, not for float64.
  const one = (value: number): string => b.reshape(b.scalar(value, ELEMENT_TYPE.float32), [1]);
  const values = b.concat([one(0), one(1)], 0);
  const marks = b.nodes.add('OneHot', [list, b.sizeAt(b.value(0), axis), values], { axis: 0 });
  const matrix = b.elemType === ELEMENT_TYPE.float32 ? marks : b.cast(marks, b.elemType);
  const axes = axesFrom(0, rank);
  const front = [axis, ...axes.filter((i) => i !== axis)];
  const turned = b.transpose(flat, front);
  const rows = b.nodes.add('Flatten', [turned], { axis: 1 });
  const summed = b.matmul(matrix, rows);
  const shape = b.nodes.add('Gather', [b.shape(b.value(0)), b.ints(front)], { axis: 0 });
  return b.transpose(
    b.reshape(summed, shape),
    axes.map((i) => front.indexOf(i)),
  );
}

/** Overwritten elements have no gradient; added ones keep it. */
const scatter =
  (opType: string, take: (b: Backward) => string): Rule =>
  (b) => {
    const reduction = b.text('reduction', 'none');
    if (reduction !== 'none' && reduction !== 'add') b.refuse(`its reduction is "${reduction}"`);
    const attributes = b.hasAttribute('axis') ? { axis: b.int('axis', 0) } : {};
    return [
      () =>
        reduction === 'add'
          ? b.dy
          : b.nodes.add(opType, [b.dy, b.input(1), b.expand(0, b.shape(b.value(2)))], attributes),
      () => undefined,
      () => take(b),
    ];
  };

/** Bounds of a slice with steps of 1, counted from the front, where sizes and bounds are known: begin and end of each axis. */
function knownBounds(b: Backward): readonly (readonly [begin: number, left: number])[] | undefined {
  const [starts, ends] = [b.list('starts') ?? b.constant(1), b.list('ends') ?? b.constant(2)];
  const axes = b.list('axes') ?? (b.has(3) ? b.constant(3) : starts?.map((_, i) => i));
  const steps = b.has(4) ? b.constant(4) : starts?.map(() => 1);
  if (!starts || !ends || !axes || !steps?.every((step) => step === 1)) return undefined;
  const dims = b.dims(b.value(0));
  const bounds = dims.map((): readonly [number, number] => [0, 0]);
  for (const [i, given] of axes.entries()) {
    const axis = b.wrap(given, dims.length);
    const size = dims[axis];
    if (typeof size !== 'number') return undefined;
    const clamp = (at: number): number => Math.min(Math.max(b.wrap(at, size), 0), size);
    const begin = clamp(starts[i]!);
    bounds[axis] = [begin, size - Math.max(clamp(ends[i]!), begin)];
  }
  return bounds;
}

/**
 * Slice: known bounds are padded back. Otherwise the same Slice of the positions 0, 1, … of each axis says where the elements came from,
 * axis by axis.
 */
const slice: Rule = (b) => [
  () => {
    const bounds = knownBounds(b);
    if (bounds) return b.pad(b.dy, [...bounds.map(([begin]) => begin), ...bounds.map(([, left]) => left)]);
    const axes = b.list('axes') ?? (b.has(3) ? b.constant(3) : b.dims(b.value(0)).map((_, axis) => axis));
    if (!axes || !b.has(1)) b.refuse('its axes are computed in the graph');
    const rank = b.rank(b.value(0));
    return axes!.reduce((gradient, axis, i) => scatterAxis(b, gradient, i, b.wrap(axis, rank)), b.dy);
  },
  ...[1, 2, 3, 4].map(() => () => undefined),
];

/** Puts the elements along one sliced axis back to their positions. */
function scatterAxis(b: Backward, gradient: string, i: number, axis: number): string {
  const rank = b.rank(b.value(0));
  const int = (value: number): string => b.scalar(value, ELEMENT_TYPE.int64);
  const size = b.sizeAt(b.value(0), axis);
  const positions = b.nodes.add('Range', [int(0), b.reshape(size, []), int(1)]);
  const bound = (position: number): string => b.slice(b.input(position), [0], [i], [i + 1]);
  const step = b.has(4) ? [bound(4)] : [];
  const taken = b.nodes.add('Slice', [positions, bound(1), bound(2), b.ints([0]), ...step]);
  const aligned = b.reshape(
    b.cast(taken, ELEMENT_TYPE.int64),
    Array.from({ length: rank }, (_, at) => (at === axis ? -1 : 1)),
  );
  const sizes = b.sizes(gradient);
  const before = axis === 0 ? [] : [b.slice(sizes, [0], [0], [axis])];
  const after = axis === rank - 1 ? [] : [b.slice(sizes, [0], [axis + 1], [TO_THE_END])];
  const zeros = b.expand(0, b.concat([...before, size, ...after], 0));
  return b.nodes.add('ScatterElements', [zeros, b.expand(aligned, sizes), gradient], { axis });
}

export const indexing: Rules = {
  Gather: gather,
  GatherElements: (b) => [() => scatterAdd(b, b.dy, b.input(1), b.axis(0)), () => undefined],
  GatherND: (b) => {
    if (b.int('batch_dims', 0) !== 0) b.refuse('its batch_dims are not 0');
    if (b.opset < SCATTER_ADDS) b.refuse(`its gradient needs operator set ${SCATTER_ADDS}`);
    return [() => b.scatterAdd('ScatterND', b.shape(b.value(0)), b.input(1), b.dy), () => undefined];
  },
  ScatterElements: scatter('ScatterElements', (b) =>
    b.nodes.add('GatherElements', [b.dy, b.input(1)], { axis: b.axis(0) }),
  ),
  ScatterND: scatter('ScatterND', (b) => b.nodes.add('GatherND', [b.dy, b.input(1)])),
  /** Only the values have a gradient; they go back to the indices. */
  TopK: (b) => {
    if (b.hasGradient(1)) b.refuse('its indices have no gradient');
    return [() => scatterAdd(b, b.dy, b.output(1).name, b.axis(-1)), () => undefined];
  },
  Slice: slice,
};
