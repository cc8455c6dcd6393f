/** Rules of reductions, and of functions that compare the elements along an axis. */
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom } from '../backward/graph-math.js';

/** Since this operator set, Softmax works along one axis; before, it flattened all axes from that one on. */
const SOFTMAX_ONE_AXIS = 13;

/** The axes that a reduction removes, counted from the front; undefined if it changes nothing. */
export function reducedAxes(b: Backward): readonly number[] | undefined {
  const rank = b.rank(b.value(0));
  const given = b.list('axes') ?? b.constant(1);
  if (!given && b.has(1)) b.refuse('its axes are computed in the graph');
  if (given && given.length > 0) return given.map((axis) => b.wrap(axis, rank));
  if (b.int('noop_with_empty_axes', 0) === 1) return undefined;
  return axesFrom(0, rank);
}

/** The gradient of the input of a reduction, from tensors that keep the reduced axes with size 1. */
export type Reduced = (b: Backward, dy: string, y: string, axes: readonly number[]) => string;

const reduction =
  (gradient: Reduced): Rule =>
  (b) => [
    () => {
      const axes = reducedAxes(b);
      if (!axes) return b.dy;
      const keep = (tensor: string): string =>
        b.int('keepdims', 1) === 1
          ? tensor
          : b.unsqueeze(
              tensor,
              axes.toSorted((m, n) => m - n),
            );
      return gradient(b, keep(b.dy), keep(b.y), axes);
    },
  ];

/** The number of elements that a result was reduced from. */
function count(b: Backward, axes: readonly number[]): string | number {
  const dims = b.dims(b.value(0));
  const sizes = axes.map((axis) => dims[axis]);
  if (sizes.every((size) => typeof size === 'number'))
    return sizes.reduce((product, size) => product * size, 1);
  const elements = b.cast(b.one('Size', b.x), b.elemType);
  return b.div(elements, b.cast(b.one('Size', b.y), b.elemType));
}

const spread = (b: Backward, dy: string): string => b.expand(dy, b.shape(b.value(0)));

export const meanGradient: Reduced = (b, dy, _, axes) => spread(b, b.div(dy, count(b, axes)));

/** The elements that are the result share the gradient evenly, as in torch.amax. */
export const extremeGradient: Reduced = (b, dy, y, axes) => {
  const chosen = b.indicator(b.equal(b.x, y));
  return b.mul(chosen, b.div(dy, b.sum(chosen, axes)));
};

/** Softmax over some axes: dx = y · (dy − Σ dy·y). */
const softmax =
  (gradient: Reduced): Rule =>
  (b) => [
    () => {
      const isOneAxis = b.opset >= SOFTMAX_ONE_AXIS;
      const axes = isOneAxis ? [b.axis(-1)] : axesFrom(b.axis(1), b.rank(b.value(0)));
      return gradient(b, b.dy, b.y, axes);
    },
  ];

export const reductions: Rules = {
  ReduceSum: reduction((b, dy) => spread(b, dy)),
  ReduceMean: reduction(meanGradient),
  ReduceMax: reduction(extremeGradient),
  ReduceMin: reduction(extremeGradient),
  /** The product of all other elements: with one zero it is that of the rest, with two it is 0 everywhere. */
  ReduceProd: reduction((b, dy, y, axes) => {
    const isZero = b.equal(b.x, 0);
    const zeros = b.sum(b.indicator(isZero), axes);
    const filled = b.where(isZero, 1, b.x);
    const rest = b.nodes.reduce('ReduceProd', filled, axes, true);
    const besideOneZero = b.where(b.equal(zeros, 1), rest, 0);
    return b.mul(dy, b.where(isZero, besideOneZero, b.where(b.equal(zeros, 0), b.div(y, filled), 0)));
  }),
  ReduceL1: reduction((b, dy) => b.mul(b.one('Sign', b.x), dy)),
  /** 0 at the zero vector. */
  ReduceL2: reduction((b, dy, y) => {
    const isZero = b.equal(y, 0);
    return b.mul(b.x, b.where(isZero, 0, b.div(dy, b.where(isZero, 1, y))));
  }),
  ReduceSumSquare: reduction((b, dy) => b.mul(b.x, b.mul(dy, 2))),
  ReduceLogSum: reduction((b, dy, y) => spread(b, b.div(dy, b.one('Exp', y)))),
  ReduceLogSumExp: reduction((b, dy, y) => b.mul(dy, b.one('Exp', b.sub(b.x, y)))),
  Softmax: softmax((b, dy, y, axes) => {
    const weighted = b.mul(dy, y);
    return b.sub(weighted, b.mul(y, b.sum(weighted, axes)));
  }),
  LogSoftmax: softmax((b, dy, y, axes) => b.sub(dy, b.mul(b.one('Exp', y), b.sum(dy, axes)))),
};
