/** Rules of normalisations. Statistics are computed again from the input: they are small beside it. */
import type { Value } from '../../../onnx/graph/graph.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom } from '../backward/graph-math.js';

/** The axes over which statistics of a channel are taken: all but the second. */
export function besideChannels(rank: number): number[] {
  return [0, ...axesFrom(2, rank)];
}

/** A vector of channels `[C]` as `[C, 1, …]`, which broadcasts against `[N, C, …]`. */
function perChannel(b: Backward, vector: string, rank: number): string {
  return b.unsqueeze(vector, axesFrom(1, rank - 1));
}

/** An input that was normalised with its own mean and variance. */
interface Standardized {
  /** (x − mean) / √(variance + ε). */
  readonly normal: string;
  readonly inverse: string;
  readonly axes: readonly number[];
}

function standardize(b: Backward, x: string, axes: readonly number[], epsilon: number): Standardized {
  const centred = b.sub(x, b.mean(x, axes));
  const variance = b.mean(b.mul(centred, centred), axes);
  const inverse = b.one('Reciprocal', b.one('Sqrt', b.add(variance, epsilon)));
  return { normal: b.mul(centred, inverse), inverse, axes };
}

/** The gradient of x from that of its normal form: the mean and the part along x do not pass. */
function throughStandardize(b: Backward, gradient: string, { normal, inverse, axes }: Standardized): string {
  const mean = b.mean(gradient, axes);
  const along = b.mul(normal, b.mean(b.mul(gradient, normal), axes));
  return b.mul(b.sub(b.sub(gradient, mean), along), inverse);
}

/** BatchNormalization: with fixed statistics a scale and a shift per channel, in training mode with those of the batch. */
const batchNormalization: Rule = (b) => {
  b.expectOneGradient();
  const rank = b.rank(b.value(0));
  const epsilon = b.float('epsilon', 1e-5);
  const axes = besideChannels(rank);
  const vector = (position: number): string => perChannel(b, b.input(position), rank);
  const perVector = (gradient: string): string => b.sum(gradient, axes, false);
  if (b.int('training_mode', 0) === 1) {
    const own = (): Standardized => standardize(b, b.x, axes, epsilon);
    return [
      () => throughStandardize(b, b.mul(b.dy, vector(1)), own()),
      () => perVector(b.mul(b.dy, own().normal)),
      () => perVector(b.dy),
      // The result depends on the statistics of the batch, not on these.
      () => undefined,
      () => undefined,
    ];
  }
  const inverse = (): string => b.one('Reciprocal', b.one('Sqrt', b.add(b.input(4), epsilon)));
  const centred = (): string => b.sub(b.x, vector(3));
  const gain = (): string => b.mul(b.input(1), inverse());
  return [
    () => b.mul(b.dy, perChannel(b, gain(), rank)),
    () => b.mul(perVector(b.mul(b.dy, centred())), inverse()),
    () => perVector(b.dy),
    () => b.one('Neg', b.mul(perVector(b.dy), gain())),
    () => {
      const slope = b.mul(b.mul(gain(), b.mul(inverse(), inverse())), -0.5);
      return b.mul(perVector(b.mul(b.dy, centred())), slope);
    },
  ];
};

/** A scale or a shift that was broadcast against the input. */
const fitted = (b: Backward, gradient: string, to: Value): string => b.fit(gradient, b.dims(b.value(0)), to);

/** Since this operator set, scale and bias of GroupNormalization are per channel; before, per group. */
const GROUP_NORM_CHANNELS = 21;

const groupNormalization: Rule = (b) => {
  const rank = b.rank(b.value(0));
  const groups = b.int('num_groups', 1);
  // [N, groups, elements of a group]
  const grouped = (tensor: string): string => b.reshape(tensor, [0, groups, -1]);
  const own = (): Standardized => standardize(b, grouped(b.x), [2], b.float('epsilon', 1e-5));
  const normal = (): string => b.reshapeLike(own().normal, b.value(0));
  const isPerChannel = b.opset >= GROUP_NORM_CHANNELS;
  const perVector = (gradient: string): string =>
    isPerChannel ? b.sum(gradient, besideChannels(rank), false) : b.sum(grouped(gradient), [0, 2], false);
  return [
    () => {
      const scaled = isPerChannel
        ? grouped(b.mul(b.dy, perChannel(b, b.input(1), rank)))
        : b.mul(grouped(b.dy), b.unsqueeze(b.input(1), [1]));
      return b.reshapeLike(throughStandardize(b, scaled, own()), b.value(0));
    },
    () => perVector(b.mul(b.dy, normal())),
    () => perVector(b.dy),
  ];
};

/** The operator adds this to the standard deviation. */
const MEAN_VARIANCE_EPSILON = 1e-9;

/**
 * Across channels, y = x · s^(−β) with s = bias + α/size · Σ x² over neighbouring channels. The same window, turned round, adds up what
 * each channel gave to its neighbours' s.
 */
const localResponse: Rule = (b) => [
  () => {
    const size = b.int('size', 1);
    const [alpha, beta, bias] = [b.float('alpha', 1e-4), b.float('beta', 0.75), b.float('bias', 1)];
    const rank = b.rank(b.value(0));
    const overChannels = (tensor: string, before: number): string => {
      // [N, 1, C, positions]: a window of one column.
      const rows = b.reshape(tensor, [0, 1, b.channels(b.value(0)), -1]);
      const pads = [before, 0, size - 1 - before, 0];
      const mean = b.nodes.add('AveragePool', [rows], {
        kernel_shape: [size, 1],
        pads,
        count_include_pad: 1,
      });
      return b.reshapeLike(mean, b.value(0));
    };
    if (rank < 3) b.refuse('its input has no positions');
    const before = Math.floor((size - 1) / 2);
    // The mean over the window is the sum divided by its size.
    const s = b.add(b.mul(overChannels(b.mul(b.x, b.x), before), alpha), bias);
    const direct = b.mul(b.dy, b.pow(s, -beta));
    const shared = overChannels(b.div(b.mul(b.dy, b.y), s), size - 1 - before);
    return b.sub(direct, b.mul(b.mul(b.x, shared), 2 * alpha * beta));
  },
];

export const normalizations: Rules = {
  BatchNormalization: batchNormalization,
  LayerNormalization: (b) => {
    b.expectOneGradient();
    const axes = axesFrom(b.axis(-1), b.rank(b.value(0)));
    const own = (): Standardized => standardize(b, b.x, axes, b.float('epsilon', 1e-5));
    return [
      () => throughStandardize(b, b.mul(b.dy, b.input(1)), own()),
      () => fitted(b, b.mul(b.dy, own().normal), b.value(1)),
      () => fitted(b, b.dy, b.value(2)),
    ];
  },
  /** x / √(mean(x²) + ε), without a mean. */
  RMSNormalization: (b) => {
    const axes = axesFrom(b.axis(-1), b.rank(b.value(0)));
    const inverse = (): string => {
      const square = b.mean(b.mul(b.x, b.x), axes);
      return b.one('Reciprocal', b.one('Sqrt', b.add(square, b.float('epsilon', 1e-5))));
    };
    return [
      () => {
        const [scale, gradient] = [inverse(), b.mul(b.dy, b.input(1))];
        const normal = b.mul(b.x, scale);
        return b.mul(b.sub(gradient, b.mul(normal, b.mean(b.mul(gradient, normal), axes))), scale);
      },
      () => fitted(b, b.mul(b.dy, b.mul(b.x, inverse())), b.value(1)),
    ];
  },
  InstanceNormalization: (b) => {
    const rank = b.rank(b.value(0));
    const own = (): Standardized => standardize(b, b.x, axesFrom(2, rank), b.float('epsilon', 1e-5));
    const perVector = (gradient: string): string => b.sum(gradient, besideChannels(rank), false);
    return [
      () => throughStandardize(b, b.mul(b.dy, perChannel(b, b.input(1), rank)), own()),
      () => perVector(b.mul(b.dy, own().normal)),
      () => perVector(b.dy),
    ];
  },
  GroupNormalization: groupNormalization,
  MeanVarianceNormalization: (b) => {
    const axes = (b.list('axes') ?? [0, 2, 3]).map((axis) => b.wrap(axis, b.rank(b.value(0))));
    return [() => throughStandardize(b, b.dy, standardize(b, b.x, axes, MEAN_VARIANCE_EPSILON ** 2))];
  },
  /** x / ‖x‖ with the sum of squares or of absolute values; 0 at the zero vector. */
  LpNormalization: (b) => [
    () => {
      const axes = [b.axis(-1)];
      const isEuclidean = b.int('p', 2) === 2;
      const size = isEuclidean ? b.one('Sqrt', b.sum(b.mul(b.x, b.x), axes)) : b.sum(b.one('Abs', b.x), axes);
      const isZero = b.equal(size, 0);
      const norm = b.where(isZero, 1, size);
      const direction = isEuclidean ? b.div(b.x, norm) : b.one('Sign', b.x);
      const along = b.sum(b.mul(b.dy, b.div(b.x, norm)), axes);
      return b.where(isZero, 0, b.div(b.sub(b.dy, b.mul(direction, along)), norm));
    },
  ],
  LRN: localResponse,
};
