/** Rules of operators that only move elements. */
import type { Value } from '../../../onnx/graph/graph.js';
import { inverse } from '../../../onnx/graph/parameters/site.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom } from '../backward/graph-math.js';

/** The same elements in the same order. */
const relabelled: Rule = (b) => [() => b.reshapeLike(b.dy, b.value(0)), () => undefined];

/** The sizes of values along an axis as a list: constants where all are known. */
function sizesAlong(b: Backward, values: readonly Value[], axis: number): string {
  const known = values.map((value) => b.dims(value)[axis]);
  if (known.every((size) => typeof size === 'number')) return b.ints(known);
  const sizes = values.map(({ name }) => b.slice(b.sizes(name), [0], [axis], [axis + 1]));
  return b.concat(sizes, 0);
}

/** Since this operator set, Split reads the sizes of its parts from an input. */
const SPLIT_INPUT = 13;

export const shapes: Rules = {
  Reshape: relabelled,
  Flatten: relabelled,
  Squeeze: relabelled,
  Unsqueeze: relabelled,
  Transpose: (b) => [
    () => {
      const rank = b.rank(b.value(0));
      return b.transpose(b.dy, inverse(b.list('perm') ?? axesFrom(0, rank).toReversed()));
    },
  ],
  /** Parts are cut out of the gradient where the operands were put. */
  Concat: (b) => {
    const axis = b.axis(0);
    const { inputs } = b.node;
    const values = inputs.map((_, position) => b.value(position));
    const known = values.map((value) => b.dims(value)[axis]);
    let parts: readonly string[] | undefined;
    const split = (): readonly string[] => {
      if (values.length === 1) return [b.dy];
      if (b.opset < SPLIT_INPUT && !known.every((size) => typeof size === 'number'))
        b.refuse(
          `the size of an operand is open, and operator set ${b.opset} cannot split by computed sizes`,
        );
      return b.opset < SPLIT_INPUT
        ? b.nodes.addSeveral('Split', [b.dy], values.length, { axis, split: known as readonly number[] })
        : b.nodes.addSeveral('Split', [b.dy, sizesAlong(b, values, axis)], values.length, { axis });
    };
    return inputs.map((_, position) => () => (parts ??= split())[position]);
  },
  Split: (b) => [
    () => {
      const { outputs } = b.node;
      if (!outputs.every(Boolean)) b.refuse('one of its outputs has no name');
      const gradients = outputs.map((_, k) => b.gradientOf(k));
      return b.concat(gradients, b.axis(0));
    },
    () => undefined,
  ],
  Expand: (b) => [() => b.fit(b.dy, b.dims(b.output(0)), b.value(0)), () => undefined],
  /** Every axis becomes two, repeats and elements; the sum over the repeats is the gradient. */
  Tile: (b) => [
    () => {
      const rank = b.rank(b.value(0));
      const pairs = b.concat([b.unsqueeze(b.input(1), [1]), b.unsqueeze(b.shape(b.value(0)), [1])], 1);
      const apart = b.reshape(b.dy, b.reshape(pairs, [-1]));
      const repeats = axesFrom(0, rank).map((axis) => 2 * axis);
      return b.sum(apart, repeats, false);
    },
    () => undefined,
  ],
  DepthToSpace: (b) => {
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
  },
  SpaceToDepth: (b) => [() => b.nodes.add('DepthToSpace', [b.dy], { blocksize: b.int('blocksize', 1) })],
  /** The sum from the other end. */
  CumSum: (b) => {
    const reverse = 1 - b.int('reverse', 0);
    const exclusive = b.int('exclusive', 0);
    return [() => b.nodes.add('CumSum', [b.dy, b.input(1)], { reverse, exclusive }), () => undefined];
  },
  Trilu: (b) => {
    const inputs = b.has(1) ? [b.dy, b.input(1)] : [b.dy];
    return [() => b.nodes.add('Trilu', inputs, { upper: b.int('upper', 1) }), () => undefined];
  },
};
