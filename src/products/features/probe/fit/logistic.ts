/** Logistic regression with an L2 penalty: the unique optimum of scikit-learn's objective, over rows that need not fit in memory. */
import { mapInOrder } from '../../../../base/map-in-order.js';
import { columnsOf, objectiveGraph, type BlockObjective } from '../../../linear/row-graphs.js';
import {
  openRowSession,
  rowsTensor,
  vectorTensor,
  type Feeds,
  type RowSession,
} from '../../../linear/row-session.js';
import {
  Coordinates,
  openScaling,
  type Curvatures,
  type LogisticData,
  type LogisticProblem,
  type Scaling,
} from './coordinates.js';
import { addTo } from '../rows/class-moments.js';
import type { LabelledBlock, RowBlocks } from '../rows/labelled-rows.js';
import { minimize, type Evaluation, type Minimum } from './lbfgs.js';
import type { ClassScorer } from '../rows/linear-scores.js';

/** A solved problem. */
export interface LogisticFit extends Pick<Minimum, 'iterations' | 'isConverged'> {
  readonly scorer: ClassScorer;
}

/** Memory for the minimisations that go side by side. */
const MINIMIZER_BYTES = 192 * 2 ** 20;
/** Vectors of the size of the parameters that a minimisation keeps. */
const VECTORS = 42;
/** Size limit of a block's logits. */
const MOST_LOGITS = 2 ** 20;

/** Solves problems of one strength, as many side by side as memory allows: they share each pass over the rows. */
export async function fitLogistic(
  data: LogisticData,
  curvatures: Curvatures,
  problems: readonly LogisticProblem[],
): Promise<LogisticFit[]> {
  const { rows, classes, signal } = data;
  const graph = objectiveGraph(classes, rows.elements);
  await using session = await openRowSession(graph, { isQuiet: true, signal });
  const [first] = problems;
  if (!first) return [];
  await using scaling = await openScaling(curvatures, data, first.strength);
  const parameters = columnsOf(classes) * (rows.elements + 1);
  const together = Math.max(1, Math.floor(MINIMIZER_BYTES / (8 * VECTORS * parameters)));
  const fits: LogisticFit[] = [];
  for (let at = 0; at < problems.length; at += together)
    // oxlint-disable-next-line no-await-in-loop -- the next ones would not fit in memory
    for (const fit of await fitTogether(data, session, scaling, problems.slice(at, at + together)))
      fits.push(fit);
  return fits;
}

/** A problem on its way: its minimisation, and the point where it wants to know the objective. */
interface Running {
  readonly coordinates: Coordinates;
  readonly steps: Generator<Float64Array, Minimum, Evaluation>;
  state: IteratorResult<Float64Array, Minimum>;
}

async function fitTogether(
  data: LogisticData,
  session: RowSession<BlockObjective>,
  scaling: Scaling,
  problems: readonly LogisticProblem[],
): Promise<LogisticFit[]> {
  const running = problems.map((problem): Running => {
    const coordinates = new Coordinates(data, problem, scaling);
    const { tolerance, mostIterations } = problem;
    const steps = minimize(coordinates.pointOf(problem.start), { tolerance, mostIterations });
    return { coordinates, steps, state: steps.next() };
  });
  for (let passes = 1; ; passes++) {
    const open = running.filter(({ state }) => !state.done);
    if (open.length === 0) break;
    data.onPass(passes, open.length);
    // oxlint-disable-next-line no-await-in-loop -- each point depends on the one before
    const evaluations = await evaluate(data, session, scaling, open);
    for (const [i, one] of open.entries()) one.state = one.steps.next(evaluations[i]!);
  }
  const columns = columnsOf(data.classes);
  const { weight, bias } = await weightsOf(running, scaling, columns);
  const size = columns * data.rows.elements;
  return running.map((one, p) =>
    finish(
      one,
      weight.subarray(p * size, (p + 1) * size),
      bias.subarray(p * columns, (p + 1) * columns),
      data.classes,
    ),
  );
}

/** Evaluates all open problems in one pass over the rows. */
async function evaluate(
  { rows, classes, foldOf }: LogisticData,
  session: RowSession<BlockObjective>,
  scaling: Scaling,
  open: readonly Running[],
): Promise<Evaluation[]> {
  const columns = columnsOf(classes);
  const width = columns * open.length;
  const { weight, bias } = await weightsOf(open, scaling, columns);
  const fixed = { weight: rowsTensor(weight, rows.elements), bias: vectorTensor(bias) };
  const loss = new Float64Array(open.length);
  const weightGradient = new Float64Array(weight.length);
  const biasGradient = new Float64Array(width);
  const problems = open.map(({ coordinates }) => coordinates.problem);
  const mostRows = Math.max(16, Math.floor(MOST_LOGITS / (open.length * classes)));
  const run = (block: LabelledBlock): Promise<BlockObjective> =>
    session.run({ ...fixed, ...feedsOf(block, rows, foldOf, problems) });
  for await (const sums of mapInOrder(rows.pass(mostRows), 2, run)) {
    addTo(loss, sums.loss);
    addTo(weightGradient, sums.weightGradient);
    addTo(biasGradient, sums.biasGradient);
  }
  const penalties = open.map(({ coordinates }, p) =>
    coordinates.slopesOf(weight, weightGradient, biasGradient, p * columns),
  );
  const slopes = await scaling.toSlopes(weightGradient);
  return open.map(({ coordinates }, p) =>
    coordinates.evaluation(loss[p]!, penalties[p]!, slopes, biasGradient, p * columns),
  );
}

/** The weights and biases of all problems at their points, `columns` of each. */
async function weightsOf(
  problems: readonly Pick<Running, 'coordinates' | 'state'>[],
  scaling: Scaling,
  columns: number,
): Promise<{ weight: Float64Array; bias: Float64Array }> {
  const width = columns * problems.length;
  const points = new Float64Array(width * problems[0]!.coordinates.elements);
  const bias = new Float64Array(width);
  for (const [p, { coordinates, state }] of problems.entries())
    coordinates.placePoint(pointOf(state), points, p * columns);
  const weight = await scaling.toWeights(points);
  for (const [p, { coordinates, state }] of problems.entries())
    coordinates.placeBias(pointOf(state), weight, bias, p * columns);
  return { weight, bias };
}

/** The point that is evaluated next, or the one where the minimisation ended. */
function pointOf({ value }: Running['state']): Float64Array {
  return value instanceof Float64Array ? value : value.point;
}

/** The rows of a block, their labels, and their importance in each problem. */
function feedsOf(
  { first, rows, data }: LabelledBlock,
  { labels, elements }: RowBlocks,
  foldOf: Uint8Array,
  problems: readonly LogisticProblem[],
): Feeds {
  const importance = new Float64Array(rows * problems.length);
  const own = new BigInt64Array(rows);
  for (let i = 0, at = 0; i < rows; i++) {
    const label = labels[first + i]!;
    const fold = foldOf[first + i]!;
    own[i] = BigInt(label);
    for (const { heldOut, classWeights } of problems)
      importance[at++] = fold === heldOut ? 0 : classWeights[label]!;
  }
  return {
    rows: rowsTensor(data, elements),
    labels: { dtype: 'int64', dims: [rows], data: own },
    importance: rowsTensor(importance, problems.length),
  };
}

function finish(
  { coordinates, state }: Running,
  weights: Float64Array,
  biases: Float64Array,
  classes: number,
): LogisticFit {
  const { iterations, isConverged } = state.value as Minimum;
  const weight = new Float64Array(classes * coordinates.elements);
  const bias = new Float64Array(classes);
  // The first of two classes has the logit 0.
  const skipped = classes - columnsOf(classes);
  weight.set(weights, skipped * coordinates.elements);
  bias.set(biases, skipped);
  return { scorer: { weight, bias }, iterations, isConverged };
}
