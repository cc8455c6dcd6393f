/** Limited-memory BFGS: the minimum of a smooth function from its values and gradients (Nocedal and Wright, Numerical Optimization, 7.2). */

/** A function at a point. The buffers stay as they are until the next point. */
export interface Evaluation {
  readonly value: number;
  readonly gradient: Float64Array;
}

/** Where a minimisation ended. */
export interface Minimum {
  readonly point: Float64Array;
  readonly value: number;
  /** The largest absolute element of the gradient. */
  readonly slope: number;
  readonly iterations: number;
  /** Whether the slope is within the tolerance, or the value cannot be lowered in double precision. */
  readonly isConverged: boolean;
}

/** Options of {@link minimize}. */
export interface MinimizeOptions {
  /** Stops when no element of the gradient is larger. */
  readonly tolerance: number;
  readonly mostIterations: number;
}

/** A step and the change of the gradient along it. */
interface Curvature {
  readonly step: Float64Array;
  readonly change: Float64Array;
  /** 1 / (step · change). */
  readonly inverse: number;
}

const HISTORY = 16;
/** Constants of the strong Wolfe conditions. */
const DECREASE = 1e-4;
const CURVATURE = 0.9;
const MOST_TRIALS = 25;
const LONGEST_GROWTH = 10;
/** Values closer than this share are equal: what rounding leaves of a sum. */
const ROUNDING = 1e-14;

/**
 * Minimises a function that the caller evaluates: it yields points, and takes the function at each point with `next`. So several
 * minimisations can go side by side, over one pass of the data.
 *
 * @returns The minimum. After a failed line search it starts once more along the gradient, then ends.
 */
export function* minimize(
  start: Float64Array,
  { tolerance, mostIterations }: MinimizeOptions,
): Generator<Float64Array, Minimum, Evaluation> {
  let at = keep(start, yield start);
  let history: Curvature[] = [];
  let iterations = 0;
  let isStuck = false;
  while (!isStuck && slopeOf(at) > tolerance && iterations < mostIterations) {
    const direction = descend(at.gradient, history);
    const next = yield* searchLine(
      at,
      direction,
      history.length > 0 ? 1 : 1 / Math.max(1, lengthOf(direction)),
    );
    if (!next) {
      isStuck = history.length === 0;
      history = [];
      continue;
    }
    iterations++;
    const step = next.point.map((value, i) => value - at.point[i]!);
    const change = next.gradient.map((value, i) => value - at.gradient[i]!);
    const product = dot(step, change);
    // Without positive curvature the next direction might not descend.
    if (product > 0) history = [...history.slice(1 - HISTORY), { step, change, inverse: 1 / product }];
    at = next;
  }
  const slope = slopeOf(at);
  return { point: at.point, value: at.value, slope, iterations, isConverged: slope <= tolerance || isStuck };
}

/** A point with the function there, in its own buffers. */
interface Place extends Evaluation {
  readonly point: Float64Array;
}

function keep(point: Float64Array, { value, gradient }: Evaluation): Place {
  return { point, value, gradient: gradient.slice() };
}

/** The direction of the two-loop recursion: minus the approximate inverse Hessian times the gradient. */
function descend(gradient: Float64Array, history: readonly Curvature[]): Float64Array {
  const direction = gradient.map((value) => -value);
  const factors = history.map(() => 0);
  for (let k = history.length - 1; k >= 0; k--) {
    const { step, change, inverse } = history[k]!;
    factors[k] = inverse * dot(step, direction);
    add(direction, change, -factors[k]!);
  }
  const last = history.at(-1);
  if (last) scale(direction, 1 / (last.inverse * dot(last.change, last.change)));
  for (const [k, { step, change, inverse }] of history.entries())
    add(direction, step, factors[k]! - inverse * dot(change, direction));
  return direction;
}

/** A trial along a line: how far, the value, and the slope along the line. */
interface Trial {
  readonly length: number;
  readonly value: number;
  readonly slope: number;
}

/**
 * Searches a line for a point that meets the strong Wolfe conditions: grows the step until it brackets one, then narrows the bracket by
 * cubic interpolation. Undefined if there is no such point within rounding.
 */
function* searchLine(
  from: Place,
  direction: Float64Array,
  first: number,
): Generator<Float64Array, Place | undefined, Evaluation> {
  const start: Trial = { length: 0, value: from.value, slope: dot(from.gradient, direction) };
  if (!(start.slope < 0)) return undefined;
  const slack = ROUNDING * Math.abs(start.value);
  const isLow = ({ length, value }: Trial): boolean =>
    value <= start.value + DECREASE * length * start.slope + slack;
  let low = start;
  let high: Trial | undefined;
  let length = first;
  for (let trials = 0; trials < MOST_TRIALS; trials++) {
    const point = from.point.map((value, i) => value + length * direction[i]!);
    const place = keep(point, yield point);
    const trial: Trial = { length, value: place.value, slope: dot(place.gradient, direction) };
    if (isLow(trial) && Math.abs(trial.slope) <= -CURVATURE * start.slope) return place;
    if (!Number.isFinite(trial.value) || !isLow(trial) || (high && trial.value > low.value + slack))
      high = trial;
    else {
      // The minimum lies after a trial with a rising slope.
      if (trial.slope * ((high?.length ?? Infinity) - low.length) > 0) high = low;
      low = trial;
    }
    length = high ? between(low, high) : length * LONGEST_GROWTH ** (trials === 0 ? 0.5 : 1);
    if (high && Math.abs(high.length - low.length) <= Number.EPSILON * Math.max(high.length, low.length))
      break;
  }
  return undefined;
}

/** Where the cubic through two trials is lowest, kept away from both ends. */
function between(low: Trial, high: Trial): number {
  const width = high.length - low.length;
  const middle = low.length + width / 2;
  if (!Number.isFinite(high.value) || !Number.isFinite(high.slope)) return low.length + width / 10;
  const theta = (3 * (low.value - high.value)) / width + low.slope + high.slope;
  const root = theta * theta - low.slope * high.slope;
  if (!(root >= 0)) return middle;
  const gamma = Math.sign(width) * Math.sqrt(root);
  const share = (gamma - low.slope + theta) / (2 * gamma + high.slope - low.slope);
  return Number.isFinite(share) ? low.length + width * Math.min(0.9, Math.max(0.1, share)) : middle;
}

function slopeOf({ gradient }: Evaluation): number {
  let most = 0;
  for (const value of gradient) most = Math.max(most, Math.abs(value));
  return most;
}

function lengthOf(vector: Float64Array): number {
  return Math.sqrt(dot(vector, vector));
}

/** The sum of the products of the elements. */
export function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

function add(target: Float64Array, vector: Float64Array, factor: number): void {
  for (let i = 0; i < target.length; i++) target[i]! += factor * vector[i]!;
}

function scale(target: Float64Array, factor: number): void {
  for (let i = 0; i < target.length; i++) target[i]! *= factor;
}
