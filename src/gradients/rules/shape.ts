/** Rules of operators that only move elements. */
import type { Value } from '../../graph/graph.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';

/** The same elements in the same order. */
const relabelled: Rule = (b) => [() => b.reshapeLike(b.dy, b.value(0)), () => undefined];

const transpose: Rule = (b) => [
  () => {
    const rank = b.rank(b.value(0));
    const perm = b.list('perm') ?? Array.from({ length: rank }, (_, axis) => rank - 1 - axis);
    return b.transpose(
      b.dy,
      perm.map((_, axis) => perm.indexOf(axis)),
    );
  },
];

/** The sizes of values along an axis as a list: constants where all are known. */
function sizesAlong(b: Backward, values: readonly Value[], axis: number): string {
  const known = values.map((value) => b.dims(value)[axis]);
  if (known.every((size) => typeof size === 'number')) return b.ints(known);
  const sizes = values.map(({ name }) => b.slice(b.sizes(name), [0], [axis], [axis + 1]));
  return b.concat(sizes, 0);
}

/** Since this operator set, Split reads the sizes of its parts from an input. */
const SPLIT_INPUT = 13;

/** Parts are cut out of the gradient where the operands were put. */
const concat: Rule = (b) => {
  const axis = b.axis(0);
  const { inputs } = b.node;
  const values = inputs.map((_, position) => b.value(position));
  const known = values.map((value) => b.dims(value)[axis]);
  let parts: readonly string[] | undefined;
  const split = (): readonly string[] => {
    if (values.length === 1) return [b.dy];
    if (b.opset < SPLIT_INPUT && !known.every((size) => typeof size === 'number'))
      b.refuse(`the size of an operand is open, and operator set ${b.opset} cannot split by computed sizes`);
    return b.opset < SPLIT_INPUT
      ? b.nodes.addSeveral('Split', [b.dy], values.length, { axis, split: known as readonly number[] })
      : b.nodes.addSeveral('Split', [b.dy, sizesAlong(b, values, axis)], values.length, { axis });
  };
  return inputs.map((_, position) => () => (parts ??= split())[position]);
};

const split: Rule = (b) => [
  () => {
    const gradients = b.node.outputs.map((output, k) => output && b.gradientOf(k));
    return b.concat(
      gradients.map((gradient) => gradient ?? b.refuse('one of its outputs has no name')),
      b.axis(0),
    );
  },
  () => undefined,
];

const expand: Rule = (b) => [() => b.fit(b.dy, b.dims(b.output(0)), b.value(0)), () => undefined];

/** Every axis becomes two, repeats and elements; the sum over the repeats is the gradient. */
const tile: Rule = (b) => [
  () => {
    const rank = b.rank(b.value(0));
    const pairs = b.concat([b.unsqueeze(b.input(1), [1]), b.unsqueeze(b.shape(b.value(0)), [1])], 1);
    const apart = b.reshape(b.dy, b.reshape(pairs, [-1]));
    return b.sum(
      apart,
      Array.from({ length: rank }, (_, axis) => 2 * axis),
      false,
    );
  },
  () => undefined,
];

const depthToSpace: Rule = (b) => {
  const size = b.int('blocksize', 1);
  const isColumns = b.text('mode', 'DCR') === 'CRD';
  return [
    () => {
      if (!isColumns) return b.nodes.add('SpaceToDepth', [b.dy], { blocksize: size });
      const channels = b.channels(b.output(0));
      // SpaceToDepth puts the position in the block before the channel; here it comes after it.
      const blocks = b.nodes.add('SpaceToDepth', [b.dy], { blocksize: size });
      const grouped = b.reshape(blocks, [0, size * size, channels, -1]);
      return b.reshapeLike(b.transpose(grouped, [0, 2, 1, 3]), b.value(0));
    },
  ];
};

const spaceToDepth: Rule = (b) => [
  () => b.nodes.add('DepthToSpace', [b.dy], { blocksize: b.int('blocksize', 1) }),
];

/** The sum from the other end. */
const cumulativeSum: Rule = (b) => {
  const reverse = 1 - b.int('reverse', 0);
  const exclusive = b.int('exclusive', 0);
  return [() => b.nodes.add('CumSum', [b.dy, b.input(1)], { reverse, exclusive }), () => undefined];
};

const triangle: Rule = (b) => {
  const inputs = b.has(1) ? [b.dy, b.input(1)] : [b.dy];
  return [() => b.nodes.add('Trilu', inputs, { upper: b.int('upper', 1) }), () => undefined];
};

export const shapes: Rules = {
  Reshape: relabelled,
  Flatten: relabelled,
  Squeeze: relabelled,
  Unsqueeze: relabelled,
  Transpose: transpose,
  Concat: concat,
  Split: split,
  Expand: expand,
  Tile: tile,
  DepthToSpace: depthToSpace,
  SpaceToDepth: spaceToDepth,
  CumSum: cumulativeSum,
  Trilu: triangle,
};
