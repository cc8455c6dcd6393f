/** The head of each kind of probe, and its predictions of rows that it has not seen. */
import { counted } from '../../../base/printable.js';
import type { Tell } from '../../../base/progress.js';
import { highest } from '../../../onnx/tensor/vectors/largest.js';
import { softmax } from '../../../onnx/tensor/vectors/softmax.js';
import { addUpFolds, joinFolds, type Moments } from './rows/class-moments.js';
import { readCurvatures, type LogisticData, type LogisticProblem } from './fit/coordinates.js';
import type { OutOfFold } from './fit/evaluate.js';
import { countClasses } from './fit/folds.js';
import type { RowBlocks } from './rows/labelled-rows.js';
import { findSpan, type RowSpan } from './fit/row-span.js';
import { scoreRows, type ClassScorer, type ScoredBlock } from './rows/linear-scores.js';
import { fitLogistic } from './fit/logistic.js';
import { checkNeighbourRows, voteByNeighbours } from './fit/neighbours.js';
import type { ProbeHead, ProbeKind, StrengthResult } from './probe.js';
import { checkRidgeSize, findCentroids, solveRidge } from './fit/ridge.js';

/** What a head is fitted to. */
export interface FitRequest {
  readonly rows: RowBlocks;
  readonly classes: readonly string[];
  /** The fold of each row. */
  readonly foldOf: Uint8Array;
  /** The number of folds; 0 if none is held out. */
  readonly folds: number;
  /** The penalty of each element. */
  readonly penalty: Float64Array;
  readonly strength: number | 'auto';
  readonly classWeights: 'equal' | 'balanced';
  readonly neighbours: number;
  readonly tolerance: number;
  readonly maxIterations: number;
  readonly signal: AbortSignal | undefined;
  /** Begins a step of one pass over the rows or several. */
  readonly say: (phase: string) => Tell;
}

/** A fitted head. */
export interface FittedProbe {
  readonly head: ProbeHead;
  readonly strength: number | null;
  readonly strengths: readonly StrengthResult[];
  /** Undefined if no folds were held out. */
  readonly outOfFold: OutOfFold | undefined;
  readonly warnings: readonly string[];
}

/** The strengths that `'auto'` tries: scikit-learn's C, and its alpha. From strong penalties to weak ones. */
const STRENGTHS = {
  logistic: [1e-3, 1e-2, 1e-1, 1, 10, 100, 1000],
  ridge: [1e5, 1e4, 1e3, 100, 10, 1, 0.1, 0.01],
} as const;
/** Rows × elements × classes, above which the classifiers of the folds are not trained to the end. */
const LARGE = 2e6;
/** Classifiers that only predict their fold: of small data, the same figures to three digits; of large data, less exact. */
const FOLD_TOLERANCE = { small: 1e-7, large: 1e-4 } as const;
/** Of large data, those that only choose a strength even less. */
const SEARCH = { tolerance: 1e-3, mostIterations: 50 } as const;

/** Fits a probe of a kind. */
export function fitProbe(kind: ProbeKind, request: FitRequest): Promise<FittedProbe> {
  return FITS[kind](request);
}

const FITS: Readonly<Record<ProbeKind, (request: FitRequest) => Promise<FittedProbe>>> = {
  logistic: fitLogisticProbe,
  ridge: fitRidgeProbe,
  centroid: fitCentroidProbe,
  knn: fitNeighbourProbe,
};

async function fitLogisticProbe(request: FitRequest): Promise<FittedProbe> {
  request.say('measuring how the features vary');
  const span = await findSpan(request.rows, request.penalty, request.signal);
  if (!span) return fitLogisticRows(request, (scorer) => scorer);
  const { rows } = span;
  const say = (phase: string): Tell => (rows.onRows = request.say(phase));
  return fitLogisticRows({ ...request, rows, say, penalty: rows.mean.map(() => 1) }, span.expand);
}

/** `expand` turns a classifier of the rows into that of the features. */
async function fitLogisticRows(request: FitRequest, expand: RowSpan['expand']): Promise<FittedProbe> {
  const { rows, tolerance, maxIterations, say } = request;
  const classWeights = weightsOf(request);
  const curvatures = await readCurvatures(rows, request.classes.length, request.signal);
  // How many passes a step takes is open: it tells the pass, and what the pass has seen of the rows.
  const dataOf = (phase: string): LogisticData => {
    const tell = say(phase);
    const onPass = (pass: number, open: number): void => {
      rows.onRows = (done) => tell(done, `pass ${pass}, ${counted(open, 'classifier')} left`);
    };
    return { ...request, classes: request.classes.length, onPass };
  };
  const folds = foldsOf(request);
  const fitFolds = async (
    phase: string,
    strength: number,
    settings: Pick<LogisticProblem, 'tolerance' | 'mostIterations'>,
    starts: readonly ClassScorer[],
  ): Promise<ClassScorer[]> => {
    const problemOf = (heldOut: number): LogisticProblem =>
      Object.assign({ strength, heldOut, classWeights, start: starts[heldOut] }, settings);
    const fits = await fitLogistic(dataOf(phase), curvatures, folds.map(problemOf));
    return fits.map(({ scorer }) => scorer);
  };
  const settings = { tolerance, mostIterations: maxIterations };
  const isLarge = rows.count * rows.elements * request.classes.length > LARGE;
  const least = FOLD_TOLERANCE[isLarge ? 'large' : 'small'];
  const ofFold = { ...settings, tolerance: Math.max(tolerance, least) };
  const search = isLarge ? SEARCH : ofFold;
  let { strength } = request;
  let nearest: ClassScorer[] = [];
  const strengths: StrengthResult[] = [];
  if (strength === 'auto') {
    // From strong penalties to weak ones: each starts where the one before ended.
    const found: ClassScorer[][] = [];
    for (const [place, one] of STRENGTHS.logistic.entries()) {
      const phase = `trying strength ${one} (${place + 1} of ${STRENGTHS.logistic.length})`;
      // oxlint-disable-next-line no-await-in-loop -- each starts from the one before
      found.push(await fitFolds(phase, one, search, found.at(-1) ?? []));
    }
    strengths.push(...(await compareStrengths(request, STRENGTHS.logistic, found.flat(), true)));
    strength = bestOf(strengths);
    nearest = found[STRENGTHS.logistic.indexOf(strength as (typeof STRENGTHS.logistic)[number])]!;
  }
  const outside =
    folds.length > 0 ? await fitFolds('training without each fold', strength, ofFold, nearest) : [];
  const [fit] = await fitLogistic(dataOf('training on all rows'), curvatures, [
    { strength, heldOut: null, classWeights, start: outside[0], ...settings },
  ]);
  const { scorer, isConverged, iterations } = fit!;
  const warnings: string[] = [];
  if (!isConverged)
    warnings.push(
      `the classifier has not reached the tolerance after ${iterations} iterations; allow more of them`,
    );
  if (isLarge && strengths.length > 0)
    warnings.push(
      'the strengths were compared by a quick search: its figures may differ from the result of the chosen one',
    );
  return {
    head: { type: 'linear', ...centreBias(expand(scorer)), activation: 'softmax' },
    strength,
    strengths,
    outOfFold: predictFolds(request, outside, true),
    warnings,
  };
}

function foldsOf({ folds }: FitRequest): number[] {
  return Array.from({ length: folds }, (_, fold) => fold);
}

/** The weights of classes. Balanced ones are n / (classes · rows of the class), as in scikit-learn. */
function weightsOf({ rows, classes, classWeights }: FitRequest): number[] {
  const counts = countClasses(rows.labels, classes.length);
  return counts.map((count) => (classWeights === 'balanced' ? rows.count / (classes.length * count) : 1));
}

/** Softmax does not change if all biases shift: those with the mean 0 are the ones that scikit-learn finds. Two classes keep theirs. */
function centreBias({ weight, bias }: ClassScorer): ClassScorer {
  if (bias.length === 2) return { weight, bias };
  const mean = bias.reduce((sum, value) => sum + value, 0) / bias.length;
  return { weight, bias: bias.map((value) => value - mean) };
}

/** Predicts each row by the classifier that has not seen its fold. Undefined without folds. */
function predictFolds(
  { rows, classes, foldOf, signal }: FitRequest,
  scorers: readonly ClassScorer[],
  isProbability: boolean,
): OutOfFold | undefined {
  if (scorers.length === 0) return undefined;
  const read = (): AsyncIterable<ScoredBlock> =>
    ofOwnFold(scoreRows(rows, scorers, signal), foldOf, classes.length, isProbability);
  return { read, isProbability };
}

/** Measures how well each strength predicts. `scorers` are the classifiers of the folds, strength by strength. */
async function compareStrengths(
  request: FitRequest,
  candidates: readonly number[],
  scorers: readonly ClassScorer[],
  isProbability: boolean,
): Promise<StrengthResult[]> {
  const { rows, classes, folds, say } = request;
  const results: StrengthResult[] = [];
  for (const [place, strength] of candidates.entries()) {
    say(`measuring strength ${strength} (${place + 1} of ${candidates.length})`);
    const own = predictFolds(request, scorers.slice(place * folds, (place + 1) * folds), isProbability)!;
    // oxlint-disable-next-line no-await-in-loop -- one pass over the rows after the other
    const result = await measure(own.read(), rows.labels, classes.length, own.isProbability);
    results.push({ strength, ...result });
  }
  return results;
}

/** The strength with the highest accuracy; of equally good ones the strongest penalty, which comes first. */
function bestOf(strengths: readonly StrengthResult[]): number {
  return strengths.reduce((a, b) => (b.accuracy > a.accuracy ? b : a)).strength;
}

async function measure(
  blocks: AsyncIterable<ScoredBlock>,
  labels: Int32Array,
  classes: number,
  isProbability: boolean,
): Promise<Omit<StrengthResult, 'strength'>> {
  let right = 0;
  let loss = 0;
  for await (const { first, rows, scores } of blocks)
    for (let i = 0; i < rows; i++) {
      const own = scores.subarray(i * classes, (i + 1) * classes);
      const label = labels[first + i]!;
      if (highest(own) === label) right++;
      loss -= Math.log(Math.max(own[label]!, Number.MIN_VALUE));
    }
  return { accuracy: right / labels.length, logLoss: isProbability ? loss / labels.length : null };
}

/** Of the scores by the classifiers of all folds, those by the classifier that has not seen the row. */
async function* ofOwnFold(
  blocks: AsyncIterable<ScoredBlock>,
  foldOf: Uint8Array,
  classes: number,
  isProbability: boolean,
): AsyncGenerator<ScoredBlock> {
  for await (const { first, rows, scores } of blocks) {
    const width = scores.length / rows;
    const own = new Float64Array(rows * classes);
    for (let i = 0; i < rows; i++) {
      const from = i * width + foldOf[first + i]! * classes;
      own.set(scores.subarray(from, from + classes), i * classes);
      const ofRow = own.subarray(i * classes, (i + 1) * classes);
      if (isProbability) softmax(ofRow, ofRow);
    }
    yield { first, rows, scores: own };
  }
}

async function fitRidgeProbe(request: FitRequest): Promise<FittedProbe> {
  const { rows, folds, strength, penalty, say } = request;
  checkRidgeSize(rows.elements, folds);
  say('adding up the products of all elements');
  const moments = await momentsOf(request, true);
  const solve = (alpha: number, heldOut: number | null): ClassScorer =>
    solveRidge(joinFolds(moments, heldOut), rows.mean, penalty, alpha);
  const solveFolds = (alpha: number): ClassScorer[] => foldsOf(request).map((fold) => solve(alpha, fold));
  let strengths: StrengthResult[] = [];
  if (strength === 'auto')
    strengths = await compareStrengths(request, STRENGTHS.ridge, STRENGTHS.ridge.flatMap(solveFolds), false);
  const best = strength === 'auto' ? bestOf(strengths) : strength;
  return {
    head: { type: 'linear', ...solve(best, null), activation: 'none' },
    strength: best,
    strengths,
    outOfFold: predictFolds(request, solveFolds(best), false),
    warnings: [],
  };
}

async function fitCentroidProbe(request: FitRequest): Promise<FittedProbe> {
  const { rows, say } = request;
  say('adding up the vectors of each class');
  const moments = await momentsOf(request, false);
  const find = (heldOut: number | null): ClassScorer => findCentroids(joinFolds(moments, heldOut), rows.mean);
  return {
    head: { type: 'linear', ...find(null), activation: 'none' },
    strength: null,
    strengths: [],
    outOfFold: predictFolds(request, foldsOf(request).map(find), false),
    warnings: [],
  };
}

function momentsOf(request: FitRequest, withProducts: boolean): Promise<Moments[]> {
  const { rows, foldOf, folds, signal } = request;
  const classWeights = withProducts ? weightsOf(request) : request.classes.map(() => 1);
  return addUpFolds({ rows, foldOf, folds: Math.max(1, folds), classWeights, withProducts, signal });
}

async function fitNeighbourProbe(request: FitRequest): Promise<FittedProbe> {
  const { rows, classes, folds, foldOf, neighbours, signal, say } = request;
  checkNeighbourRows(rows.count);
  say('keeping the vectors');
  const vectors = await rows.copy();
  const voting = { rows, classes: classes.length, neighbours, foldOf, signal };
  const outOfFold = folds === 0 ? undefined : { read: () => voteByNeighbours(voting), isProbability: true };
  const head: ProbeHead = { type: 'neighbours', vectors, labels: rows.labels, neighbours };
  return { head, strength: null, strengths: [], outOfFold, warnings: [] };
}
